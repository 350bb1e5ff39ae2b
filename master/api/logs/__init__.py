"""Logs of tasks and trials."""
