"""What waits to be sent to one client: bounded, and of each row only its newest state.

That waits at the end: a client that has seen a number takes itself to know all changes of that kind with lower ones.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from master.core.updates.ranges import ranges_of
from master.updates.entities import KIND_OF

MAX_WAITING = 5_000
"""Rows, beyond what a synchronisation itself brings: some MiB. A client that is so far behind fetches anew."""
Key = tuple[str, int]
"""Kind and id of an entity."""


@dataclass(frozen=True, slots=True)
class _Gone:
    row: Key


class Outbox:
    def __init__(self) -> None:
        self.closed: str | None = None
        """Why the client is to be sent away."""
        self._waiting: OrderedDict[int | Key | _Gone, str] = OrderedDict()
        """Messages by number, rows by key, and which of them are gone."""
        self._messages = 0
        self._free = 0
        """So many at its front do not count."""
        self._woken, self._ended = asyncio.Event(), asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def clear(self) -> None:
        self._waiting.clear()
        self._free = 0

    def put(self, message: str) -> None:
        self._messages += 1
        self._waiting[self._messages] = message
        self._woken.set()

    def put_row(self, key: Key, text: str | None) -> None:
        """None: it is gone. That keeps its place if the row is there again: what follows it rests on it."""
        self._waiting.pop(key, None)
        if text is not None:
            self._waiting[key] = text
        else:
            self._waiting.setdefault(_Gone(key), "")
        self._woken.set()

    def allow(self) -> None:
        """What is in it now does not count."""
        self._free = len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) - self._free > MAX_WAITING

    def close(self, why: str) -> None:
        """The first reason counts. What has not been sent is not sent any more."""
        if self.closed is None:
            self.closed = why
            self.clear()
            self._woken.set()
            self._ended.set()

    async def ready(self) -> None:
        """Returns when there is a message, or it is closed."""
        while not self._waiting and self.closed is None:
            self._woken.clear()
            await self._woken.wait()

    async def until_closed(self) -> None:
        await self._ended.wait()

    def take(self) -> str | None:
        if not self._waiting:
            return None
        key, text = self._waiting.popitem(last=False)
        self._free = max(0, self._free - 1)
        return self._deletions(key.row) if isinstance(key, _Gone) else text

    def _deletions(self, first: Key) -> str:
        """Those that follow, of the same kind, in one message."""
        kind, ids = first[0], [first[1]]
        while isinstance(key := next(iter(self._waiting), None), _Gone) and key.row[0] == kind:
            del self._waiting[key]
            ids.append(key.row[1])
        return KIND_OF[kind].deleted(ranges_of(ids))
