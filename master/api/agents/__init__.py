"""Agents and their slots, and the socket over which agents connect."""
