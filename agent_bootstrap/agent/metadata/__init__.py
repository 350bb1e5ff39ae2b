"""The metadata service of a cloud's machine: what the agent hears there, and what tasks get of it."""
