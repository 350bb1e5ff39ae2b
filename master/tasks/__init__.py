"""Interactive tasks: commands."""
