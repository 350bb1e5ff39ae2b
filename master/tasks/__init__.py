"""Interactive tasks: one life for all kinds (`kinds`)."""
