"""Scheduling policies: `fair_share`, `priority` and `round_robin`, each with its own `decide`, and their helpers.

`dispatch` is that of batch systems, where each request gets agents of its own. Pure.
"""
