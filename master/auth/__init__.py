"""Who may do what: users, passwords, sessions, tokens of allocations and of agents.

`permissions` has every rule of the cluster; `service` logs people in.
"""
