"""Which machines to give up: idle ones are ended or stopped, busy ones packed, replaced or left for drift.

`idle` and `consolidation` are where the two begin. Pure.
"""
