"""Batch systems: whole nodes for a time, granted by a scheduler of the site's."""
