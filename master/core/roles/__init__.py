"""Permissions, roles and groups, and what follows from holding a role somewhere."""
