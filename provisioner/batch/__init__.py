"""Batch systems: what Slurm and PBS can do for us, how they are reached, and the directories of our jobs."""
