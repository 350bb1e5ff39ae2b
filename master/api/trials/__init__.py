"""Trials: lists, progress, workloads.

What their programs report comes in by `runs` and `metrics`, the calls of the Core API.
"""
