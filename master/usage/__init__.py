"""What was run when, by whom and where, for accounting."""
