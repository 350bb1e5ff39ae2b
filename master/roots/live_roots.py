"""All live roots of one kind: looked up by id and by job, kept to their deadlines, resumed after a restart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Generic, TypeVar

import structlog

from master.allocations import machine as allocation_machine
from master.allocations.service import AllocationService
from master.jobs.ports import Unqueued
from master.roots.root import Root
from rm_backends.base import RestoreRecord
from windlass.base.clock import Clock
from windlass.base.clock_jumps import Clocks
from windlass.base.errors import LeaseLost, StoreUnavailable

log = structlog.get_logger(__name__)

_NOT = timedelta(0)
R = TypeVar("R", bound=Root[Any, Any, Any])

QUIET_S = 60.0
"""How long one that is over is still known: late reports are answered, and rows read before its end shown as it is."""


class LiveRoots(Generic[R]):
    """Implements `master.jobs.ports.JobSource`."""

    def __init__(self, *, allocations: AllocationService, clock: Clock) -> None:
        self._allocations = allocations
        self._clock = clock
        self._roots: dict[int | str, R] = {}
        self._of_job: dict[str, R] = {}
        self._clocks = Clocks(clock)
        self._behind: dict[int | str, timedelta] = {}
        """By how much the wall clock was set since the root was told of that."""

    def __iter__(self) -> Iterator[R]:
        return iter(tuple(self._roots.values()))

    def get(self, root_id: int | str) -> R | None:
        """None when it is over or unknown."""
        return self._roots.get(root_id)

    def job_roots(self) -> Sequence[R]:
        return [root for root in self._roots.values() if not root.is_over]

    def job_root(self, job_id: str) -> R | None:
        root = self._of_job.get(job_id)
        return root if root is not None and not root.is_over else None

    def unqueued(self, job_id: str) -> Unqueued | None:
        return None

    def register(self, root: R) -> None:
        self._roots[root.id] = root
        self._of_job[root.job_id] = root

    def forget(self, root: R) -> None:
        if self._roots.get(root.id) is root:  # else another took its place
            del self._roots[root.id]
            self._of_job.pop(root.job_id, None)

    async def tick(self) -> None:
        """Deadlines, orders that could not be told, and an end to the memory of those that are over."""
        if jump_s := self._clocks.jump_s():
            log.warning("the clock was set", by_s=round(jump_s))
            self._clocks.settle()
            by = timedelta(seconds=jump_s)
            self._behind = {root.id: self._behind.get(root.id, _NOT) + by for root in self}
        for root in self:
            try:
                await self._look_after(root)
            except LeaseLost:
                raise
            except Exception:  # tried again; the others have deadlines too
                log.exception("deadline not kept", root=root.id)

    async def _look_after(self, root: R) -> None:
        now = self._clock.now()
        with suppress(StoreUnavailable):  # tried again
            if root.id in self._behind:
                await root.clock_jumped(self._behind[root.id])
                del self._behind[root.id]
            await root.keep_deadlines(now)
        await root.sync_order()
        since = root.quiet_since
        if since is not None and (now - since).total_seconds() >= QUIET_S:
            self.forget(root)

    def restore(self, roots: Iterable[R]) -> list[RestoreRecord]:
        """Register what was not over; what the resource managers must know of it.

        `resume` then runs the pending effects, after the resource managers were given the records.
        """
        records: list[RestoreRecord] = []
        for root in roots:
            self.register(root)
            for allocation in root.open_allocations():
                self._allocations.adopt(allocation, root)
                records.append(self._allocations.restore_record(allocation, root))
        return records

    async def resume(self) -> None:
        """Do again what a crash may have cut off: every root settles, every open allocation's effects run."""
        for root in self:
            await root.settle()
            for allocation in root.open_allocations():
                # A queued request was given to the resource manager by `restore` already.
                if allocation.has_slots:
                    await self._allocations.run_effects(
                        allocation_machine.pending_effects(allocation)
                    )
            root.resumed()
