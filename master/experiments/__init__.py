"""Experiments and trials: their life, metrics, checkpoints."""
