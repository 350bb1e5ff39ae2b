"""What resource managers and the provisioner have kept in the store: agents, intents and instances, leases.

Each implements a Protocol of the `ports.py` of its caller, in the caller's types.
"""
