"""Users.

`session` is login, logout, and who is calling.
"""
