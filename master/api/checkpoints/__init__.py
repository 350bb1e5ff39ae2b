"""Checkpoints: reports, lists, changes."""
