"""`windlass hpc ...`: a private master for a researcher without root, on a login node of Slurm or PBS."""
