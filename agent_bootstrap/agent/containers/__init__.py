"""One container on this machine: its directory, environment, mounts and output, its life, and all of them together."""
