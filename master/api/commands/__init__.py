"""Commands: interactive tasks of one process."""
