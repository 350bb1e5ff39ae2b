"""Whose regular expression is searched for next, and how much CPU time that may take."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class CpuBudget:
    """CPU time that may be spent, and that comes back slowly."""

    most_s: float
    per_s: float
    """How much comes back in a second."""
    left_s: float
    at_s: float
    """When `left_s` was so much."""

    def spend(self, spent_s: float, now_s: float) -> None:
        self.left_s = self.left(now_s) - spent_s
        self.at_s = now_s

    def left(self, now_s: float) -> float:
        return min(self.most_s, self.left_s + (now_s - self.at_s) * self.per_s)

    def wait_s(self, now_s: float) -> float:
        """Until some is left; 0: now."""
        return max(0.0, -self.left(now_s)) / self.per_s


class Turns:
    """Runs short work in threads, user after user, however much each of them asks for; of a user one at a time."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threads
        self._waiting: dict[int | None, deque[asyncio.Future[None]]] = {}
        """By user, the one who was served longest ago first."""
        self._busy: set[int | None] = set()

    async def run(self, user: int | None, work: Callable[[], T], done: Callable[[T], None]) -> T:
        """`done` is called with the result even if nobody waits for it any more."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        self._next()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(user)
            raise
        return await asyncio.shield(self._begin(user, work, done))

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    def _begin(
        self, user: int | None, work: Callable[[], T], done: Callable[[T], None]
    ) -> asyncio.Future[T]:
        def over(future: asyncio.Future[T]) -> None:
            if not future.cancelled() and future.exception() is None:
                done(future.result())
            self._end(user)

        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(over)
        return running

    def _end(self, user: int | None) -> None:
        self._busy.discard(user)
        if turns := self._waiting.pop(user, None):
            self._waiting[user] = turns  # behind all others
        self._free += 1
        self._next()

    def _next(self) -> None:
        while self._free and (turn := self._chosen()):
            self._free -= 1
            turn.set_result(None)

    def _chosen(self) -> asyncio.Future[None] | None:
        for user in [user for user in self._waiting if user not in self._busy]:
            turns = self._waiting.pop(user)
            while turns:
                turn = turns.popleft()
                if not turn.done():
                    if turns:
                        self._waiting[user] = turns
                    self._busy.add(user)
                    return turn
        return None
