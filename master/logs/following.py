"""Who waits for new lines. What wakes a follower also says where to look, so that it need not search."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

MAX_RANGES = 64
"""A slow follower's ranges are merged beyond this: it then reads some lines of others in vain, and misses none."""

IdRange = tuple[int, int]


class Follower:
    """One reader of some tasks: the id ranges in which lines of theirs were stored since it last looked."""

    def __init__(self, task_ids: Iterable[str]) -> None:
        self.task_ids = frozenset(task_ids)
        self.woken = asyncio.Event()
        self._ranges: list[IdRange] = []

    def stored(self, ids: IdRange) -> None:
        self._ranges.append(ids)
        if len(self._ranges) > MAX_RANGES:
            self._ranges = [(self._ranges[0][0], self._ranges[-1][1])]
        self.woken.set()

    def take(self) -> list[IdRange]:
        self.woken.clear()
        ranges, self._ranges = self._ranges, []
        return ranges


class Followers:
    """All followers, by task."""

    def __init__(self) -> None:
        self._by_task: dict[str, set[Follower]] = {}

    def add(self, follower: Follower) -> None:
        for task_id in follower.task_ids:
            self._by_task.setdefault(task_id, set()).add(follower)

    def remove(self, follower: Follower) -> None:
        for task_id in follower.task_ids:
            followers = self._by_task[task_id]
            followers.discard(follower)
            if not followers:
                del self._by_task[task_id]

    def stored(self, task_ids: Iterable[str], ids: IdRange) -> None:
        for follower in {f for task_id in task_ids for f in self._by_task.get(task_id, ())}:
            follower.stored(ids)

    def __len__(self) -> int:
        return len({f for followers in self._by_task.values() for f in followers})


async def wait_for_any(*events: asyncio.Event, timeout_s: float | None = None) -> bool:
    """Wait until one is set; False when the time is over first."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
