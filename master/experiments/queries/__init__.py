"""Reads for the API: experiments and trials, checkpoints, metrics, and states of searches.

Each is one or two indexed queries of the store; nothing is changed.
"""
