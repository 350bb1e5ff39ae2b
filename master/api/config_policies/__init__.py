"""Config policies: what administrators fix for the work of others."""
