"""Workspaces and their projects.

They are read here; only the first ones are made, at the start of a cluster.
"""
