"""Runs: what the Core API tells of a trial."""
