"""Trials: lists, progress, workloads."""
