"""Slurm 22.05 to 25.11, by its commands and their text output."""
