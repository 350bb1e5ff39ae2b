"""How values are written: durations, sizes, names of images and entrypoints, counts, JSON.

Each module checks or prints one kind of value, for configurations, messages and people alike.
"""
