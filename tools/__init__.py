"""Programs for those who work on Windlass itself; not installed."""
