"""Join tokens, as administrators make and revoke them."""
