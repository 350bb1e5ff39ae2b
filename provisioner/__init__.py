"""From pending demand to machines: plan, write the intent, act, look again.

`planning` decides, `fleet` acts, `providers` and `batch` are called; `types` has the words of all.
"""
