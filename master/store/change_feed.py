"""What has changed, told to whoever listens once it is committed: one feed for all live views.

Each change is a row of `tables.Change`, written in the transaction that makes it (`master.store.sql.changes`). There is
one row for each entity, with the number of its newest change: who knows the highest number that it has seen finds by it
what it missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    kind: str
    """As `master.store.sql.changes.WATCHED` names it."""
    id: int
    seq: int
    """Higher than that of every change before, of any kind."""
    deleted: bool


Listener = Callable[[Sequence[Change]], None]


class ChangeFeed:
    """Listeners are called on the event loop, right after the commit; they must not block."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def publish(self, changes: Sequence[Change]) -> None:
        if changes:
            for listener in self._listeners:
                listener(changes)
