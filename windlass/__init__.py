"""Windlass: the client side. Importing this package imports nothing heavy."""

__version__ = "0.1.0"

DETERMINED_VERSION = "0.38.1"
"""The release of the published client whose REST API Windlass speaks."""
