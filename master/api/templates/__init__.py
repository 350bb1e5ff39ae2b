"""Templates of configuration.

They are listed, created, changed, renamed and removed by name.
"""
