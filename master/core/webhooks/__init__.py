"""Webhooks: what they are, which of them an event concerns, what is sent, and when it is tried again. Pure."""
