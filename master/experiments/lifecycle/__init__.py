"""The state of one experiment with its trials, and the pure steps that change it.

`machine` has a step for each event, `transitions` what follows from it; `persistence` makes rows of the difference.
"""
