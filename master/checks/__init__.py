"""What `windlass doctor` says of a master: what it has and needs, what is open, and whether its site answers."""
