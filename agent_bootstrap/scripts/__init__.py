"""How a machine that was just launched becomes an agent: user data, and what it fetches from the master."""
