"""Hyperparameters that a sampler chooses: trials wait for them, a process is asked, a step records its answer."""
