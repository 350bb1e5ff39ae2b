"""What gets onto a node: the protocol, the agent daemon, the supervisor of one task."""
