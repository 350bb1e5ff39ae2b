"""Workspaces and their projects."""
