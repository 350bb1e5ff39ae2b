"""The master itself."""
