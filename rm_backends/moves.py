"""Moves requests between pools, as the rules of `fall_back` say.

Followed is every request that waits in a pool with a rule, and what is in another pool than its own until it ends.
Requests are looked at when they are due, some at a time; those that may leave ask the pools they may go to together.

A move is `withdraw`, and `request` only after `Withdrawn`. Nothing of it is stored: after a crash a request waits in
its own pool again.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol, TypeVar

from master.core import fall_back
from master.core.fall_back import NOWHERE, FallBackRule, Prospect, Wait
from master.core.reasons import Reason, ReasonKind
from rm_backends.base import (
    AllocationRequest,
    AlreadyGranted,
    FellBack,
    JobOrder,
    ResourceManager,
)
from rm_backends.observer import Observer
from windlass.base.clock import Clock
from windlass.base.errors import LeaseLost, Unsatisfiable
from windlass.base.formats.durations import format_duration
from windlass.base.loop import Loop

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_EVERY_S = 1.0
LOOKS_AT_ONCE = 300
"""A look takes some ten microseconds, on the event loop."""
ASK_EVERY_S = 5.0
"""Pools are asked so often, with all that may move: each time a decision of theirs is made."""
ASKED_AT_ONCE = 100
LOOKS = 10
"""So often in `after_s`, one is looked at that may not leave yet; no more than each `LOOK_EVERY_S`."""
MOST_S = 30.0
"""Nor less than so often."""
CALL_LIMIT_S = 10.0
RETRY_S = 1.0
"""Pause before a call of a move is repeated."""


class PoolBackend(ResourceManager, Protocol):
    """A resource manager between whose pools, and those of others, requests may move."""

    @property
    def observer(self) -> Observer: ...

    def knows(self, allocation_id: str) -> bool:
        """Whether it waits or holds something here."""
        ...

    async def prospects(
        self, pool: str, requests: Sequence[AllocationRequest]
    ) -> Mapping[str, Prospect]:
        """What the pool would do now for these requests, if they came together, by allocation id.

        Those are left out that would have to wait, or for which others would be asked to leave. Changes nothing.
        """
        ...


@dataclass(slots=True, eq=False)
class _Move:
    """One that is under way."""

    source: str
    to: str
    why: str
    is_cancelled: bool = False


@dataclass(slots=True, eq=False)
class _Followed:
    request: AllocationRequest
    """As it came: for its own pool, unless it fell back before the master was restarted."""
    wait: Wait
    why: str = ""
    """What its pool said when it was last looked at; away: why it left."""
    move: _Move | None = None
    holds: bool = False
    """It has slots."""
    asked_at: float = 0.0
    """When other pools were asked for it."""

    @property
    def id(self) -> str:
        return self.request.allocation_id

    @property
    def job_id(self) -> str:
        return self.request.job.job_id

    @property
    def age(self) -> tuple[datetime, str]:
        """The oldest first."""
        return self.request.requested, self.id


@dataclass(slots=True)
class _Look:
    """What one look has found out already."""

    now: float
    never: dict[Hashable, bool] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    """Job -> slots that it holds, and that it may be given elsewhere."""


class Moves:
    """`rules` by pool; `backends` has every pool."""

    def __init__(
        self, rules: Mapping[str, FallBackRule], backends: Mapping[str, PoolBackend], clock: Clock
    ) -> None:
        self._rules = {pool: rule for pool, rule in rules.items() if rule.pools}
        self._backends = backends
        self._clock = clock
        self._followed: dict[str, _Followed] = {}
        self._of_job: dict[str, dict[str, _Followed]] = {}
        self._orders: dict[str, JobOrder] = {}
        """The newest of every job that is followed."""
        self._untold: dict[str, JobOrder] = {}
        """Of jobs whose slots elsewhere have changed, which their pools do not know yet."""
        self._due: list[tuple[float, int, str]] = []
        self._ask_at = 0.0
        """Until then no pool is asked."""
        self._numbers = count()
        self._loop = Loop("moves between pools", self._step, interval_s=LOOK_EVERY_S)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            await self._loop.run()

    # What the router tells

    def asked(self, request: AllocationRequest) -> None:
        """A backend has it. Repeating it changes nothing, unless its own pool is now the one that it is in."""
        known = self._followed.get(request.allocation_id)
        if known is not None:
            if request.fell_back is None and known.wait.is_away and request.pool == known.wait.pool:
                self._forget(known)
            return
        away = request.fell_back
        if away is None and not self.others(request):
            return
        home = request.pool if away is None else away.home
        one = _Followed(request, Wait(home=home, pool=request.pool))
        one.why, one.holds = ("", False) if away is None else (away.why, True)
        self._followed[one.id] = one
        self._of_job.setdefault(one.job_id, {})[one.id] = one
        self._orders[one.job_id] = request.job
        self._look_in(one, LOOK_EVERY_S)

    def noted(self, order: JobOrder) -> JobOrder:
        """The order as pools must know it: with what its job has elsewhere."""
        job_id = order.job_id
        if job_id in self._orders:
            self._orders[job_id] = order
        if job_id in self._untold:
            self._untold[job_id] = order
        return self._whole(order)

    def cancel(self, allocation_id: str) -> None:
        """It is not wanted any more: a move that is under way ends nowhere."""
        one = self._followed.get(allocation_id)
        if one is not None and one.move is not None:
            one.move.is_cancelled = True
            one.move = None
            self._forget(one)

    def refused(self, allocation_id: str) -> bool:
        """The pool where it waits will never take it. Whether another one may."""
        one = self._followed.get(allocation_id)
        if one is None or one.move is not None:
            return one is not None
        one.wait = fall_back.refused(one.wait)
        pools = fall_back.left(one.wait, self._rule(one.request))
        return any(self._could_hold(one, pool) for pool in pools)

    def gone(self, allocation_id: str) -> None:
        """No backend knows it any more."""
        if (one := self._followed.get(allocation_id)) is not None:
            self._forget(one)

    # What it answers

    def is_moving(self, allocation_id: str) -> bool:
        one = self._followed.get(allocation_id)
        return one is not None and one.move is not None

    def others(self, request: AllocationRequest) -> tuple[str, ...]:
        """The pools that may run it besides its own."""
        return self.rule_for(request).pools

    def rule_for(self, request: AllocationRequest) -> FallBackRule:
        """Where it may fall back to."""
        may_leave = request.requires.may_fall_back and request.launches_machines
        return self._rule(request) if may_leave else NOWHERE

    def may_reach(self, pool: str) -> tuple[str, ...]:
        """The pools that work of this one may fall back to."""
        return self._rules.get(pool, NOWHERE).pools

    def away(self, job_id: str) -> tuple[str, ...]:
        """The pools that work of this job has fallen back to, and waits or runs in."""
        waits = (one.wait for one in self._of_job.get(job_id, {}).values())
        return tuple(sorted({wait.pool for wait in waits if wait.is_away}))

    def explain(self, allocation_id: str, reason: Reason | None) -> Reason | None:
        """`reason` is what the pool says that has it; None: it does not wait in one."""
        one = self._followed.get(allocation_id)
        if one is not None and one.move is not None:
            where = f"from resource pool '{one.move.source}' to '{one.move.to}'"
            text = f"moves {where}: {one.move.why}"
            return Reason(kind=ReasonKind.QUEUED, text=text)
        if one is None or reason is None:
            return reason
        if one.wait.is_away:
            why = f"could not start in '{one.wait.home}' ({one.why})"
            return replace(
                reason, text=f"waits in resource pool '{one.wait.pool}', as it {why}: {reason.text}"
            )
        return self._with_rule(one, reason)

    def _with_rule(self, one: _Followed, reason: Reason) -> Reason:
        """Where else it may start, while its own pool cannot serve it."""
        rule = self._rule(one.request)
        ripe_at = fall_back.ripe_at(replace(one.wait, kind=reason.kind), rule)
        if ripe_at is None:
            return reason
        pools = " or ".join(f"'{pool}'" for pool in rule.pools)
        more = f"it may start in resource pool {pools} after {_duration(rule.after_s)} of this"
        if ripe_at <= self._clock.monotonic():
            more = f"resource pool {pools} could not start it at once either"
        return replace(reason, text=f"{reason.text}; {more}")

    # Looking

    async def _step(self) -> None:
        look = _Look(self._clock.monotonic())
        await self._tell_all()
        asking = [one for one in self._due_now(look.now) if self._looked_at(one, look)]
        if look.now < self._ask_at or not asking:
            return
        self._ask_at = look.now + ASK_EVERY_S
        asking.sort(key=lambda one: (one.asked_at, one.age))  # each has its turn
        asking = sorted(asking[:ASKED_AT_ONCE], key=lambda one: one.age)
        for one in asking:
            one.asked_at = look.now
        for one, to in await self._destinations(asking, look):
            if self._followed.get(one.id) is one and self._tasks is not None:
                one.move = _move(one, to)
                self._tasks.create_task(self._carry_out(one, one.move))

    def _due_now(self, now: float) -> Iterator[_Followed]:
        for _ in range(LOOKS_AT_ONCE):
            if not self._due or self._due[0][0] > now:
                return
            _, _, id_ = heapq.heappop(self._due)
            if (one := self._followed.get(id_)) is not None:
                yield one

    def _looked_at(self, one: _Followed, look: _Look) -> bool:
        """As `_may_move`. A backend that raises is asked again later."""
        try:
            return self._may_move(one, look)
        except Exception:
            log.exception("request %s could not be looked at", one.id)
            self._look_in(one, MOST_S)
            return False

    def _may_move(self, one: _Followed, look: _Look) -> bool:
        """Look at one that is due: forget it or say when it is due again, and whether pools are to be asked for it."""
        rule = self._rule(one.request)
        often = min(MOST_S, max(LOOK_EVERY_S, rule.after_s / LOOKS))
        backend = self._backends[one.wait.pool]
        if one.move is not None:
            self._look_in(one, often)
            return False
        reason = backend.explain(one.id)
        one.holds = reason is None
        if reason is None:
            if not one.wait.is_away or not backend.knows(one.id):
                self._forget(one)
            else:
                limited = self._orders[one.job_id].max_slots is not None
                self._look_in(one, LOOK_EVERY_S if limited else often)
            return False
        never = reason.kind in fall_back.STUCK and self._never(one, look)
        one.wait = fall_back.seen(one.wait, reason.kind, look.now, hopeless=never)
        if not one.wait.is_away:
            one.why = reason.text
        if fall_back.targets(one.wait, rule, look.now):
            ask_at = self._ask_at if look.now < self._ask_at else look.now + ASK_EVERY_S
            self._look_in(one, ask_at - look.now)  # all of them together
            return True
        ripe_at = fall_back.ripe_at(one.wait, rule)
        self._look_in(one, often if ripe_at is None else min(often, ripe_at - look.now))
        return False

    def _look_in(self, one: _Followed, seconds: float) -> None:
        due = self._clock.monotonic() + max(0.0, seconds)
        heapq.heappush(self._due, (due, next(self._numbers), one.id))

    def _never(self, one: _Followed, look: _Look) -> bool:
        """Whether the pool where it waits could not hold it even if it were empty."""
        key = (one.wait.pool, one.request.shape)
        if key not in look.never:
            look.never[key] = not self._could_hold(one, one.wait.pool)
        return look.never[key]

    def _could_hold(self, one: _Followed, pool: str) -> bool:
        try:
            self._backends[pool].check(replace(one.request, pool=pool))
        except Unsatisfiable:
            return False
        return True

    async def _destinations(
        self, asking: Sequence[_Followed], look: _Look
    ) -> list[tuple[_Followed, str]]:
        """Who moves where: into the first pool of its list that takes it."""
        left = {one.id: one for one in asking if one.wait.is_away or self._take_room(one, look)}
        lists = {
            id_: fall_back.targets(one.wait, self._rule(one.request), look.now)
            for id_, one in left.items()
        }
        found: list[tuple[_Followed, str]] = []
        for place in range(max(map(len, lists.values()), default=0)):
            by_pool: dict[str, dict[str, _Followed]] = {}
            for id_, one in left.items():
                if place < len(lists[id_]) and self._followed.get(id_) is one:
                    by_pool.setdefault(lists[id_][place], {})[id_] = one
            for pool, ones in by_pool.items():
                waits = {id_: one.wait for id_, one in ones.items()}
                answer = fall_back.answer(waits, await self._ask(pool, ones.values()))
                found += [(left.pop(id_), pool) for id_ in answer.takes]
                for id_ in answer.later:
                    del left[id_]
        return found

    async def _ask(self, pool: str, ones: Iterable[_Followed]) -> Mapping[str, Prospect]:
        try:
            async with asyncio.timeout(CALL_LIMIT_S):
                requests = [self._request_in(pool, one) for one in ones]
                return await self._backends[pool].prospects(pool, requests)
        except LeaseLost:
            raise
        except Exception:
            log.exception("resource pool %s does not say what it could start", pool)
            return {}

    # Moving

    async def _carry_out(self, one: _Followed, move: _Move) -> None:
        """Cancelled at any point, it leaves the request nowhere."""
        source = self._backends[move.source]
        answer = await _repeat(lambda: source.withdraw(one.id), move)
        if one.move is not move:
            return
        if isinstance(answer, AlreadyGranted):
            one.move = None
            return
        if one.wait.is_away or self._take_room(one, _Look(0.0)):
            one.wait = fall_back.moved(one.wait, move.to, self._clock.monotonic())
            self._note_elsewhere(one)
        to = one.wait.pool  # the same as before, if others of its job have got the slots meanwhile
        target = self._backends[to]

        async def ask() -> None:
            await self._tell(one.job_id)  # a pool gives up its share before another has it
            if not move.is_cancelled:
                await target.request(self._request_in(to, one))

        await _repeat(ask, move)
        if one.move is not move:
            await _repeat(lambda: target.kill(one.id))
            return
        one.move = None
        if to == move.to:
            log.info("request %s moved to resource pool %s: %s", one.id, to, move.why)

    def _request_in(self, pool: str, one: _Followed) -> AllocationRequest:
        """As that pool is asked: with its age, and the newest order of its job."""
        order = self._whole(self._orders[one.job_id])
        away = FellBack(home=one.wait.home, why=one.why) if pool != one.wait.home else None
        return replace(one.request, pool=pool, job=order, fell_back=away)

    # What a job may have in all pools together

    def _take_room(self, one: _Followed, look: _Look) -> bool:
        """Whether its job may be given its slots in another pool, and count them as given."""
        limit, job_id = self._orders[one.job_id].max_slots, one.job_id
        if limit is None:
            return True
        if job_id not in look.used:
            look.used[job_id] = self._used(job_id)
        if look.used[job_id] + one.request.slots > limit:
            return False
        look.used[job_id] += one.request.slots
        return True

    def _used(self, job_id: str) -> int:
        """What a job holds in all pools, and waits for in others than its own."""
        held = sum(
            sum(entry.placement.values())
            for pool, backend in self._backends.items()
            for entry in backend.observer.queue(pool, job_id)
        )
        ones = self._of_job[job_id].values()
        return held + sum(o.request.slots for o in ones if o.wait.is_away and not o.holds)

    def _whole(self, order: JobOrder) -> JobOrder:
        if order.max_slots is None:
            return order
        elsewhere: dict[str, int] = {}
        for one in self._of_job.get(order.job_id, {}).values():
            if one.wait.is_away:
                elsewhere[one.wait.pool] = elsewhere.get(one.wait.pool, 0) + one.request.slots
        return replace(order, elsewhere=elsewhere)

    def _note_elsewhere(self, one: _Followed) -> None:
        order = self._orders[one.job_id]
        if order.max_slots is not None:
            self._untold[one.job_id] = order

    async def _tell(self, job_id: str) -> None:
        """Tell all pools what of its max_slots is theirs, if they do not know."""
        order = self._untold.get(job_id)
        if order is None:
            return
        for backend in dict.fromkeys(self._backends.values()):
            await backend.update_job(self._whole(order))
        if self._untold.get(job_id) is order:
            del self._untold[job_id]

    async def _tell_all(self) -> None:
        for job_id in list(self._untold):
            try:
                async with asyncio.timeout(CALL_LIMIT_S):
                    await self._tell(job_id)
            except LeaseLost:
                raise
            except Exception:
                log.exception("pools were not told what job %s has elsewhere, will repeat", job_id)

    def _forget(self, one: _Followed) -> None:
        if one.wait.is_away:
            self._note_elsewhere(one)
        del self._followed[one.id]
        of_job = self._of_job[one.job_id]
        del of_job[one.id]
        if not of_job:
            del self._of_job[one.job_id], self._orders[one.job_id]

    def _rule(self, request: AllocationRequest) -> FallBackRule:
        home = request.pool if request.fell_back is None else request.fell_back.home
        return self._rules.get(home, NOWHERE)


async def _repeat(call: Callable[[], Awaitable[T]], move: _Move | None = None) -> T | None:
    """Until it works, or the move is cancelled. All calls of a move may be repeated."""
    while move is None or not move.is_cancelled:
        try:
            async with asyncio.timeout(CALL_LIMIT_S):
                return await call()
        except LeaseLost:
            raise
        except Exception:
            log.exception("a call of a move between pools failed, will repeat")
        await asyncio.sleep(RETRY_S)
    return None


def _move(one: _Followed, to: str) -> _Move:
    why = "its own pool can start it" if to == one.wait.home else one.why
    return _Move(source=one.wait.pool, to=to, why=why)


def _duration(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))
