"""A cluster on this machine: a master and agents as detached processes, each under a keeper of its own."""

DEFAULT_PORT = 8080
MANY_AGENTS = 64
