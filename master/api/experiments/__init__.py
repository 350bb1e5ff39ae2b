"""Experiments: submission, lists, actions."""
