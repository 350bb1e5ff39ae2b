"""Groups of users, and roles."""
