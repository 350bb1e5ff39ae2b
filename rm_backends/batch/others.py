"""Jobs of others at the site, for who looks at a queue: asked for seldom, and never waited for long."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from provisioner.batch.base import BatchSystem, ForeignJob, NoAnswer
from windlass.base.clock import Clock

KEPT_S = 60.0
PATIENCE_S = 3.0
"""Who looks waits so long at the most."""


@dataclass(frozen=True, slots=True)
class _Listing:
    at: float
    jobs: Sequence[ForeignJob]


class OtherJobs:
    def __init__(self, system: BatchSystem, clock: Clock) -> None:
        self._system = system
        self._clock = clock
        self._known: dict[str, _Listing] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By queue."""

    async def of(self, queue: str) -> Sequence[ForeignJob]:
        """What was known last, where the site does not answer."""
        async with self._asking[queue]:
            known = self._known.get(queue, _Listing(float("-inf"), ()))
            if self._clock.monotonic() - known.at >= KEPT_S:
                jobs = known.jobs
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        jobs = await self._system.in_queue(queue)
                except (NoAnswer, TimeoutError):
                    pass
                known = self._known[queue] = _Listing(self._clock.monotonic(), jobs)
            return known.jobs
