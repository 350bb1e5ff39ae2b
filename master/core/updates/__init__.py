"""Live updates: what a subscription matches, and what its client is told when that changes. Pure."""
