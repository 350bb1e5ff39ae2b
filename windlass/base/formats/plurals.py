"""Numbers of things, for people."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """ "1 slot", "2 slots"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
