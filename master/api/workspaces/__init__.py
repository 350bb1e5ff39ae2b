"""Workspaces and projects."""
