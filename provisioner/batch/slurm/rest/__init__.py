"""Slurm by its REST server, slurmrestd: v0.0.36 (20.11) to v0.0.44 (25.11)."""
