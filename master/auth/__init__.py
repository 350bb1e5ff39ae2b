"""Who may do what: users, passwords, sessions, tokens of allocations and of agents."""
