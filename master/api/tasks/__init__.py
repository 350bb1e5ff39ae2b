"""Tasks of all kinds."""
