"""Lines that the master itself writes into task logs."""

from __future__ import annotations

import structlog

from master.logs.rows import TaskLog
from master.logs.store import LogStore
from windlass.base.clock import Clock
from windlass.base.errors import WindlassError

log = structlog.get_logger(__name__)


class MasterLines:
    """Implements `master.experiments.narration.TaskLog`."""

    def __init__(self, logs: LogStore, clock: Clock) -> None:
        self._logs = logs
        self._clock = clock

    async def say(
        self, task_id: str, allocation_id: str, text: str, *, level: str = "INFO"
    ) -> None:
        line = TaskLog(
            task_id=task_id,
            allocation_id=allocation_id,
            timestamp=self._clock.now(),
            log=text,
            level=level,
            source="master",
            stdtype="stdout",
        )
        try:
            await self._logs.append([line])
        except WindlassError:
            log.warning("task log line lost", task_id=task_id, text=text, exc_info=True)
