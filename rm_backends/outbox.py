"""Events on their way to the master: in order per allocation, repeated until the master has committed them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rm_backends.base import RmEvent, RmEvents
from windlass.base.errors import LeaseLost

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 5.0
MAX_IN_FLIGHT = 64
"""Events handled at the same time; more would only queue in the store's writer."""


@dataclass(slots=True, eq=False)
class _Item:
    event: RmEvent
    delivered: Callable[[], None] | None
    dropped: bool = False


class Outbox:
    """`post` never blocks. One allocation whose handler fails does not hold up the others."""

    def __init__(self, events: RmEvents) -> None:
        self._events = events
        self._queues: dict[str, deque[_Item]] = {}
        self._draining: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)

    def post(self, event: RmEvent, delivered: Callable[[], None] | None = None) -> None:
        """Queue `event`; `delivered` is called once the master has committed it."""
        queue = self._queues.setdefault(event.allocation_id, deque())
        queue.append(_Item(event, delivered))
        self._start_draining(event.allocation_id)

    def discard(self, allocation_id: str) -> None:
        """Drop what was not handled yet: nobody waits for it any more."""
        for item in self._queues.pop(allocation_id, ()):
            item.dropped = True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for allocation_id in list(self._queues):
                    self._start_draining(allocation_id)
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    def _start_draining(self, allocation_id: str) -> None:
        if self._tasks is not None and allocation_id not in self._draining:
            self._draining.add(allocation_id)
            self._tasks.create_task(self._drain(allocation_id))

    async def _drain(self, allocation_id: str) -> None:
        try:
            while queue := self._queues.get(allocation_id):
                item = queue[0]
                await self._deliver(item)
                if item.dropped:
                    continue
                queue.popleft()
                if item.delivered is not None:
                    item.delivered()
            self._queues.pop(allocation_id, None)
        finally:
            self._draining.discard(allocation_id)

    async def _deliver(self, item: _Item) -> None:
        delay = FIRST_RETRY_S
        is_first = True
        while not item.dropped:
            try:
                async with self._in_flight:
                    await self._events.handle(item.event)
                return
            except LeaseLost:
                raise
            except Exception as error:
                log.warning(
                    "event not taken by the master, will repeat: %s of %s: %s",
                    type(item.event).__name__,
                    item.event.allocation_id,
                    error,
                    exc_info=is_first,
                )
            is_first = False
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_S)
