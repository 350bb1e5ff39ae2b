"""Lines that the master itself writes into task logs."""

from __future__ import annotations

import asyncio

import structlog

from master.logs.rows import TaskLine
from master.logs.store import LogStore
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError

log = structlog.get_logger(__name__)

MAX_WAITING = 20_000
"""Lines kept while the log store is slow; more are dropped: state never waits for logs."""


class MasterLines:
    """Implements `master.allocations.task_messages.TaskLogWriter`. A task group owns `run()`."""

    def __init__(self, logs: LogStore, clock: Clock) -> None:
        self._logs = logs
        self._clock = clock
        self._waiting: list[TaskLine] = []
        self._woken = asyncio.Event()
        self._ending = False

    def say(self, task_id: str, allocation_id: str, text: str, *, level: str = "INFO") -> None:
        if len(self._waiting) >= MAX_WAITING:
            log.warning("task log line dropped: the log store is too slow", task_id=task_id)
            return
        self._waiting.append(
            TaskLine(
                task_id=task_id,
                allocation_id=allocation_id,
                timestamp=self._clock.now(),
                log=text,
                level=level,
                source="master",
                stdtype="stdout",
            )
        )
        self._woken.set()

    def end(self) -> None:
        """Nothing more will be said."""
        self._ending = True
        self._woken.set()

    async def run(self) -> None:
        """Store what was said, in order, until `end`."""
        while self._waiting or not self._ending:
            await self._woken.wait()
            self._woken.clear()
            lines, self._waiting = self._waiting, []
            try:
                await self._logs.append(lines)
            except WindlassError:
                log.warning("task log lines lost", lines=len(lines), exc_info=True)
