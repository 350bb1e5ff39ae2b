"""Login, logout, who am I."""
