"""Webhooks: list, create, change, delete, test; what became of their calls; alerts of trials."""
