"""The one writer of a database: many callers, few commits.

Callers submit items to lanes and wait. The writer takes all that waits in a lane (up to a limit), applies it in one
transaction and answers each caller after the commit. If a batch fails, its items are tried alone, so that a bad one
fails alone. The lanes take turns, the first one first: bulk data never holds up more than one batch of state.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from master.store.sql.database import Database
from master.store.sql.faults import DatabaseFault, OutcomeUnknown, as_windlass_error, fault_of
from windlass.base.errors import LeaseLost, StoreDamaged, StoreUnavailable, WindlassError

log = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


@dataclass(slots=True)
class _Waiting(Generic[I, R]):
    item: I
    answer: asyncio.Future[R]


class Lane(Generic[I, R]):
    """One kind of work. `apply` runs the items of one transaction, in order, and answers each.

    `weigh` counts an item against `batch_weight` (what one transaction takes) and `max_waiting` (what may queue).
    `committed` is told of each item on the event loop, whether or not its caller still waits.
    """

    def __init__(
        self,
        apply: Callable[[Connection, Sequence[I]], Sequence[R]],
        *,
        weigh: Callable[[I], int],
        batch_weight: int,
        max_waiting: int,
        committed: Callable[[I, R], None] | None = None,
    ) -> None:
        self.apply = apply
        self.committed = committed
        self._weigh = weigh
        self._batch_weight = batch_weight
        self._max_waiting = max_waiting
        self._queue: deque[_Waiting[I, R]] = deque()
        self._weight = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, waiting: _Waiting[I, R]) -> None:
        if self._weight >= self._max_waiting:
            raise StoreUnavailable("the database is too slow for what arrives: try again later")
        self._weight += self._weigh(waiting.item)
        self._queue.append(waiting)

    def take(self) -> list[_Waiting[I, R]]:
        """What the next transaction does: at least one item. Callers that gave up before it began are left out."""
        batch: list[_Waiting[I, R]] = []
        weight = 0
        while self._queue:
            size = self._weigh(self._queue[0].item)
            if batch and weight + size > self._batch_weight:
                break
            waiting = self._queue.popleft()
            self._weight -= size
            if not waiting.answer.done():
                weight += size
                batch.append(waiting)
        return batch


class Writer:
    """A task group owns `run()`; when that ends, whoever waits, or comes later, gets an error."""

    def __init__(
        self,
        database: Database,
        lanes: Sequence[Lane[Any, Any]],
        *,
        guard: Callable[[Connection], None] | None = None,
    ) -> None:
        """`guard` runs first in each transaction; the LeaseLost it raises ends the writer."""
        self._database = database
        self._lanes = lanes
        self._guard = guard
        self._woken = asyncio.Event()
        self._ended: WindlassError | None = None

    async def submit(self, lane: Lane[I, R], item: I) -> R:
        """Returns after a durable commit. A caller cancelled before its transaction began changes nothing."""
        if self._ended is not None:
            raise type(self._ended)(self._ended.message)
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        lane.put(_Waiting(item, answer))
        self._woken.set()
        return await answer

    async def run(self) -> None:
        """Ends by cancellation, after the batch under way, or with LeaseLost or OutcomeUnknown."""
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                while any(self._lanes):
                    for lane in self._lanes:
                        if batch := lane.take():
                            await _finish(self._write(lane, batch))
        except WindlassError as error:
            self._end(error)
            raise
        except BaseException:
            self._end(StoreUnavailable("the store is closed"))
            raise

    async def _write(self, lane: Lane[I, R], batch: list[_Waiting[I, R]]) -> None:
        try:
            await self._transact(lane, batch)
        except (LeaseLost, OutcomeUnknown) as error:
            _refuse(batch, error)
            raise
        except Exception as error:  # noqa: BLE001  (the callers get it, translated)
            if len(batch) == 1 or fault_of(error) is DatabaseFault.DATABASE:
                refused = as_windlass_error(error)
                _refuse(batch, refused, cause=error)
                if isinstance(refused, StoreDamaged):
                    log.critical("%s", refused.message)
                    self._end(refused)
                return
            for waiting in batch:
                await self._write(lane, [waiting])

    async def _transact(self, lane: Lane[I, R], batch: list[_Waiting[I, R]]) -> None:
        def work(connection: Connection) -> Sequence[R]:
            if self._guard is not None:
                self._guard(connection)
            return lane.apply(connection, [waiting.item for waiting in batch])

        results = await self._database.write(work)
        for waiting, result in zip(batch, results, strict=True):
            if lane.committed is not None:
                lane.committed(waiting.item, result)
            if not waiting.answer.done():
                waiting.answer.set_result(result)

    @property
    def damage(self) -> StoreDamaged | None:
        """Why nothing is written any more."""
        return self._ended if isinstance(self._ended, StoreDamaged) else None

    def _end(self, error: WindlassError) -> None:
        self._ended = error
        for lane in self._lanes:
            while batch := lane.take():
                _refuse(batch, error)


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end even if cancelled meanwhile: a batch that may commit must be answered."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _refuse(
    batch: Sequence[_Waiting[Any, Any]], error: WindlassError, *, cause: Exception | None = None
) -> None:
    for waiting in batch:
        if not waiting.answer.done():
            own = error if len(batch) == 1 else type(error)(error.message)
            own.__cause__ = cause if cause is not own else None
            waiting.answer.set_exception(own)
