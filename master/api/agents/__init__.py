"""Agents and their slots, and the socket over which agents connect.

What comes before an agent is there belongs to it: join tokens, and what a machine asks while it boots.
"""
