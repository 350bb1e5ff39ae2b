"""Pools on Slurm and PBS: their sections as dispatching and pilots take them, and what a site is asked beforehand."""
