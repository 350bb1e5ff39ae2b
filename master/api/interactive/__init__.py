"""Interactive tasks: the same calls for each kind, under the names that the published API gives it."""
