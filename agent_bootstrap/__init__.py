"""What gets onto a node: the protocol, the agent daemon, the supervisor of one task.

It imports nothing of the master, and of the client only `windlass.base`.
"""
