"""Resource pools."""
