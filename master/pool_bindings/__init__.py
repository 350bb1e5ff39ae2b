"""Which pools are kept for some workspaces."""
