"""Workspaces and projects.

Both are only read.
"""
