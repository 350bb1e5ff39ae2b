"""`det fleet`: the machines of elastic pools.

Which there are, which may be bought, what they cost, and images for them.
"""
