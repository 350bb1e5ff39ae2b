"""Task logs: a store of their own, so that no flood of lines ever delays a change of state."""
