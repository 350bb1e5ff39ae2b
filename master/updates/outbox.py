"""What waits to be sent to one client: bounded, and the newest state of a row in the place of older ones."""

from __future__ import annotations

import asyncio
from collections import deque

from master.core.updates.ranges import ranges_of
from master.updates.entities import KIND_OF

MAX_WAITING = 5_000
"""Rows, beyond what a synchronisation itself brings: some MiB. A client that is so far behind fetches anew."""
Key = tuple[str, int]
"""Kind and id of an entity."""


class Outbox:
    def __init__(self) -> None:
        self.closed: str | None = None
        """Why the client is to be sent away."""
        self._order: deque[str | Key] = deque()
        """Messages as they are, and keys of `_rows`."""
        self._rows: dict[Key, str | None] = {}
        """None: it is gone."""
        self._free = 0
        """So many at its front do not count."""
        self._woken, self._ended = asyncio.Event(), asyncio.Event()

    def __len__(self) -> int:
        return len(self._order)

    def clear(self) -> None:
        self._order.clear()
        self._rows.clear()
        self._free = 0

    def put(self, message: str) -> None:
        self._order.append(message)
        self._woken.set()

    def put_row(self, key: Key, text: str | None) -> None:
        if key not in self._rows:
            self._order.append(key)
        self._rows[key] = text
        self._woken.set()

    def allow(self) -> None:
        """What is in it now does not count."""
        self._free = len(self._order)

    @property
    def is_full(self) -> bool:
        return len(self._order) - self._free > MAX_WAITING

    def close(self, why: str) -> None:
        """The first reason counts. What has not been sent is not sent any more."""
        if self.closed is None:
            self.closed = why
            self.clear()
            self._woken.set()
            self._ended.set()

    async def ready(self) -> None:
        """Returns when there is a message, or it is closed."""
        while not self._order and self.closed is None:
            self._woken.clear()
            await self._woken.wait()

    async def until_closed(self) -> None:
        await self._ended.wait()

    def take(self) -> str | None:
        if not self._order:
            return None
        item = self._order.popleft()
        self._free = max(0, self._free - 1)
        if isinstance(item, str):
            return item
        text = self._rows.pop(item)
        return self._deletions(item) if text is None else text

    def _deletions(self, first: Key) -> str:
        """Those that follow, of the same kind, in one message."""
        kind, ids = first[0], [first[1]]
        while self._order:
            key = self._order[0]
            if isinstance(key, str) or key[0] != kind or self._rows[key] is not None:
                break
            self._order.popleft()
            del self._rows[key]
            ids.append(key[1])
        return KIND_OF[kind].deleted(ranges_of(ids))
