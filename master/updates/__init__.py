"""Live updates: committed changes, told to the clients that see them."""
