"""Slurm's jobs by the library pyslurm, in a process of its own: its import can end the process that does it."""
