"""What a cluster with Slurm or PBS has for us: queues, accounts, limits, file systems, nodes.

`gather` finds it out without changing anything, `findings` says what is wrong and what helps.
"""
