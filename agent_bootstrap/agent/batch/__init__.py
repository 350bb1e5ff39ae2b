"""The agent as part of a job of Slurm or PBS: what its node says, when the job ends, and where its scratch space is.

`node_probe` looks at a node without an agent, for `windlass hpc check --probe`.
"""
