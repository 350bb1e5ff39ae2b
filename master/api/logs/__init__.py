"""Logs of tasks and trials.

They are searched, followed and, by agents and tasks, posted.
"""
