"""Resource pools.

They are shown from memory: what they have, what waits, and by which rules.
"""
