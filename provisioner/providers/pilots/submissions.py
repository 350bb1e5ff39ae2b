"""Pilots on their way to the site. Equal ones of one node that come together are submitted as one array.

Each is a launch of its own all the same: it queues, starts, is cancelled and ends by itself. Which pilot is which job
of the array is written down before the site is asked. Of an array the site takes all jobs or none, so whatever became
of the call, each is found by the name of the array and its number there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from provisioner.batch.base import BatchSystem, JobRefused, JobSpec, NoAnswer, task_id
from provisioner.batch.disks import Disk
from provisioner.capacity.pacing import Pacing
from provisioner.leases.job_record import called
from provisioner.providers.base import LimitedCall, Rate
from provisioner.providers.pilots.book import Pilot, PilotBook
from windlass.base.clock import Clock

log = logging.getLogger(__name__)

GATHER_S = 1.0
"""How long a pilot waits for others of its kind: the work of one search arrives piece by piece."""
SUBMISSIONS = Rate(burst=10, per_s=5)
_TURN_S = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    pilot: Pilot
    avoid: tuple[str, ...]
    """Names of nodes."""
    answer: asyncio.Future[str]


class Submissions:
    """Of one site."""

    def __init__(
        self,
        system: BatchSystem,
        book: PilotBook,
        disk: Disk,
        token: Callable[[Pilot], str],
        clock: Clock,
        *,
        prefix: str,
        gather_s: float,
    ) -> None:
        """`prefix`: of the names of all jobs."""
        self._system = system
        self._book = book
        self._disk = disk
        self._token = token
        self._prefix = prefix
        self._gather_s = gather_s
        self._pacing = Pacing({LimitedCall.LAUNCH: SUBMISSIONS}, clock)
        self._gathering: dict[str, list[_Order]] = {}

    async def submit(self, pilot: Pilot, avoid: Sequence[str]) -> str:
        """The id of its job, which is in the book before the site is asked. `avoid`: nodes that it must not use.

        Raises OSError and JobRefused: there is none; NoAnswer: nobody knows.
        """
        order = _Order(pilot, tuple(avoid), asyncio.get_running_loop().create_future())
        if pilot.intent.count > 1 or self._system.most_tasks < 2:
            await self._lead([order])
            return await order.answer
        kind = json.dumps([pilot.intent.request, order.avoid], sort_keys=True)
        if (others := self._gathering.get(kind)) is not None:
            others.append(order)
            return await order.answer
        orders = self._gathering[kind] = [order]
        try:
            await asyncio.sleep(self._gather_s)
        except asyncio.CancelledError:
            _give_up(orders)
            raise
        finally:
            del self._gathering[kind]
        await self._lead([one for one in orders if not one.answer.done()])
        return await order.answer

    async def _lead(self, orders: Sequence[_Order]) -> None:
        """The call of the first submits them all. If that is given up, the others do not know what became of it."""
        try:
            await self._send(orders)
        finally:
            _give_up(orders)

    async def _send(self, orders: Sequence[_Order]) -> None:
        """In as few calls as the site allows: a limit may leave room for some of them."""
        left = list(orders)
        size = self._system.most_tasks
        while left:
            some = left[:size]
            try:
                ids = await self._submit([one.pilot for one in some], some[0].avoid)
            except JobRefused as error:
                if error.passing and len(some) > 1:
                    size = -(-len(some) // 2)
                    log.info("an array of %d jobs was refused: %s", len(some), error.message)
                    continue
                _fail(left, error)
                return
            except Exception as error:  # noqa: BLE001 - each of them is told
                _fail(left, error)
                return
            for one, job_id in zip(some, ids, strict=True):
                if not one.answer.done():
                    one.answer.set_result(job_id)
            left = left[size:]

    async def _submit(self, pilots: Sequence[Pilot], avoid: tuple[str, ...]) -> Sequence[str]:
        while not self._pacing.take(LimitedCall.LAUNCH):  # noqa: ASYNC110 - what is waited for is time
            await asyncio.sleep(_TURN_S)
        spec = await asyncio.to_thread(self._written, pilots)
        job_id = await self._system.submit(replace(spec, avoid=avoid))
        if not spec.tasks:
            return [job_id]
        log.info("%d pilots submitted as array %s", spec.tasks, job_id)
        return [task_id(job_id, number) for number in range(spec.tasks)]

    def _written(self, pilots: Sequence[Pilot]) -> JobSpec:
        """First in the book, then where the nodes look."""
        array = self._array(pilots) if len(pilots) > 1 else ""
        placed = [self._placed(pilot, array, number) for number, pilot in enumerate(pilots)]
        files = placed[0].files_on(self._disk)
        if not array:
            return files.write(placed[0], self._token(placed[0]))
        return files.write_array(array, [(pilot, self._token(pilot)) for pilot in placed])

    def _placed(self, pilot: Pilot, array: str, number: int) -> Pilot:
        """As it is in the book then. What it was written as before, the site does not have."""
        known = self._book.get(pilot.tag)
        step = partial(_called_as, array=array, number=number)
        new = step(known or pilot)
        if known is not None and known.job_name != new.job_name:
            known.files_on(self._disk).remove(known)
        self._book.put(pilot, step)
        return new

    def _array(self, pilots: Sequence[Pilot]) -> str:
        """The same for the same pilots in the same order, and no others."""
        tags = "\n".join(pilot.tag for pilot in pilots)
        return self._prefix + hashlib.sha256(tags.encode()).hexdigest()[:16]


def _called_as(pilot: Pilot, array: str, number: int) -> Pilot:
    return replace(called(pilot), array=array, number=number)


def _fail(orders: Sequence[_Order], error: Exception) -> None:
    for one in orders:
        if not one.answer.done():
            one.answer.set_exception(error)


def _give_up(orders: Sequence[_Order]) -> None:
    """Those that are not answered: the call that was to submit them was given up."""
    first, *others = orders
    first.answer.cancel()
    _fail(others, NoAnswer("the submission of its array was given up", may_run=True))
