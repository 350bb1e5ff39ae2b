"""Pools whose requests are batch jobs: one job made to measure for each, on which our agents run."""
