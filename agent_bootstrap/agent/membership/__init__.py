"""How a machine becomes an agent and stops being one: `windlass agent join` and `leave`."""
