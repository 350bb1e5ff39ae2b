"""Ways to the master from a node: byte streams to its port, whatever carries them. Standard library only."""
