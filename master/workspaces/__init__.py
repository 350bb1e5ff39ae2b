"""Workspaces and their projects: what users do with them, what is read of them, how they are deleted."""
