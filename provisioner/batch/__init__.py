"""Batch systems: what Slurm and PBS can do for us, how they are reached, and the directories of our jobs.

`base` has the Protocol; commands run here or over SSH (`commands`, `ssh`), or go to slurmrestd.
"""
