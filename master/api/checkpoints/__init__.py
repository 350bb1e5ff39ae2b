"""Checkpoints: reports, lists, changes.

Downloads stream an archive that a process of the master packs.
"""
