"""Pools of agents: static ones, and ones whose machines the provisioner brings up."""
