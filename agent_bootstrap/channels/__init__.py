"""Ways to the master from a node: byte streams to its port, whatever carries them. Standard library only.

A node connects directly, by a relay, by ssh, or by a pipe or folder that the relay opens at its request.
"""
