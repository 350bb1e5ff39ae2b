"""Several backends side by side, as one resource manager and one observer.

Each request goes to the backend that has its pool; what is asked of an agent, to the one that has the agent.

A request is known to at most one backend. `moves` moves it between pools that fall back to others.

A pool may vanish from the configuration while work still wants it. Such requests wait here, and say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from master.core.fall_back import FallBackRule
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.types import SchedulerSettings
from rm_backends.auto_modes import AutoModes, PilotSide
from rm_backends.base import (
    Abilities,
    AllocationHint,
    AllocationRequest,
    AlreadyGranted,
    JobOrder,
    LaunchSpec,
    RestoreRecord,
    Withdrawn,
)
from rm_backends.moves import Moves, PoolBackend
from rm_backends.observer import AgentOperator, Observer
from rm_backends.views import (
    AgentKey,
    AgentView,
    JobInPool,
    PoolView,
    QueueEntry,
)
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import InvalidArgument, InvalidState, NotFound, Unsatisfiable


class RoutedBackend(PoolBackend, Protocol):
    """A backend beside others."""

    @property
    def observer(self) -> Observer: ...

    @property
    def operator(self) -> AgentOperator | None:
        """None where agents cannot be taken out of service from here."""
        ...


class Router:
    """Implements `ResourceManager` and `Observer`.

    Keeps only what no backend could: requests for pools that are gone, and those that may move between pools. The
    backends know what they have.
    """

    def __init__(
        self,
        backends: Sequence[RoutedBackend],
        *,
        fall_back: Mapping[str, FallBackRule] | None = None,
        clock: Clock | None = None,
        pilot_sides: Mapping[str, PilotSide] | None = None,
        order: Sequence[str] = (),
    ) -> None:
        """`fall_back` by pool; `pilot_sides` of pools of mode auto; `order`: in which pools are listed."""
        if not backends:
            raise InvalidArgument("a cluster needs at least one resource manager")
        self._backends = tuple(backends)
        by_pool: dict[str, RoutedBackend] = {}
        self._unplaced: dict[str, AllocationRequest] = {}
        for backend in backends:
            for pool in backend.pools():
                if pool in by_pool:
                    raise InvalidArgument(f"two resource managers have a pool '{pool}'")
                by_pool[pool] = backend
        self._by_pool = {pool: by_pool[pool] for pool in (*order, *by_pool) if pool in by_pool}
        self._auto = AutoModes(
            pilot_sides or {},
            check=lambda request: self._backend(request.pool).check(request),
            has_work=lambda pool, job_id: bool(self.queue(pool, job_id)),
            knows=self.knows,
        )
        self._moves = Moves(fall_back or {}, self._by_pool, clock or SystemClock())

    def pools(self) -> Sequence[str]:
        return tuple(self._by_pool)

    def knows(self, allocation_id: str) -> bool:
        if allocation_id in self._unplaced or self._moves.is_moving(allocation_id):
            return True
        return self._owner(allocation_id) is not None

    def check(self, request: AllocationRequest) -> Sequence[str]:
        """Its own pool, or one that it may fall back to, must be able to hold it."""
        pools = (request.pool, *self._moves.others(request))
        errors: list[Unsatisfiable] = []
        for pool in pools:
            try:
                return self._backend(pool).check(replace(request, pool=pool))
            except Unsatisfiable as error:
                errors.append(error)
        first, *others = errors
        if not others:
            raise first
        more = "; ".join(error.why for error in others)
        sizes = {size for error in errors for size in error.nearest}
        below = max((size for size in sizes if size < request.slots), default=None)
        above = min((size for size in sizes if size > request.slots), default=None)
        raise type(first)(
            f"{first.why}; nor can it fall back: {more}",
            nearest=[size for size in (below, above) if size is not None],
        )

    def fall_back(self, request: AllocationRequest) -> FallBackRule:
        """Where it may go when its own pool cannot serve it."""
        return self._moves.rule_for(request)

    def refused(self, allocation_id: str) -> bool:
        """The pool where it waits will never take it. Whether another one may."""
        return self._moves.refused(allocation_id)

    def abilities(self, pool: str) -> Abilities | None:
        """With those of the pools that work of it may fall back to: what any of them can do has an effect."""
        known = [
            able
            for name in (pool, *self._moves.may_reach(pool))
            if (backend := self._by_pool.get(name)) is not None
            and (able := backend.abilities(name)) is not None
        ]
        if not known:
            return None
        users = {able.process_user for able in known}
        return Abilities(
            containers=any(able.containers for able in known),
            trial_classes=any(able.trial_classes for able in known),
            shm_sizes=any(able.shm_sizes for able in known),
            shares_user=all(able.shares_user for able in known),
            process_user=users.pop() if len(users) == 1 else "",
        )

    async def request(self, request: AllocationRequest) -> None:
        """It was checked when it was submitted: a pool that is unknown now has been taken away since."""
        if self._moves.is_moving(request.allocation_id):
            return
        request = self._auto.placed(request)
        backend = self._owner(request.allocation_id) or self._by_pool.get(request.pool)
        if backend is None:
            self._unplaced[request.allocation_id] = request
        else:
            await backend.request(self._whole(request))
            self._note(request)

    def _note(self, request: AllocationRequest) -> None:
        if not self._auto.follows(request):
            self._moves.asked(request)

    async def withdraw(self, allocation_id: str) -> Withdrawn | AlreadyGranted:
        self._unplaced.pop(allocation_id, None)
        self._moves.cancel(allocation_id)
        backend = self._owner(allocation_id)
        if backend is not None:
            answer = await backend.withdraw(allocation_id)
            if isinstance(answer, AlreadyGranted):
                return answer
        self._moves.gone(allocation_id)
        self._auto.gone(allocation_id)
        return Withdrawn(allocation_id=allocation_id)

    async def start(self, allocation_id: str, spec: LaunchSpec) -> None:
        self._auto.gone(allocation_id)
        # One that nobody knows goes to any backend, which answers that its reservation is gone.
        backend = self._owner(allocation_id) or self._backends[0]
        await backend.start(allocation_id, spec)

    async def release(self, allocation_id: str, reason: str, deadline: datetime | None) -> None:
        if (backend := self._owner(allocation_id)) is not None:
            await backend.release(allocation_id, reason, deadline)

    async def kill(self, allocation_id: str) -> None:
        self._unplaced.pop(allocation_id, None)
        self._moves.cancel(allocation_id)
        self._auto.gone(allocation_id)
        if (backend := self._owner(allocation_id)) is not None:
            await backend.kill(allocation_id)
        if self._owner(allocation_id) is None:
            self._moves.gone(allocation_id)

    async def update_job(self, order: JobOrder) -> None:
        order = self._moves.noted(order)
        for backend in self._backends:
            await backend.update_job(order)

    def hint(self, note: AllocationHint) -> None:
        if (backend := self._owner(note.allocation_id)) is not None:
            backend.hint(note)

    async def restore(self, records: Sequence[RestoreRecord]) -> None:
        """What ran in a pool that is gone from the configuration goes to the first backend, which reports it lost."""
        shares: dict[int, list[RestoreRecord]] = {n: [] for n in range(len(self._backends))}
        held = {(r.request.pool, r.request.job.job_id) for r in records if r.containers}
        for record in records:
            if not record.containers:
                record = replace(record, request=self._auto.placed(record.request, held))
            if record.request.pool not in self._by_pool and not record.containers:
                await self.request(record.request)
                continue
            backend = self._by_pool.get(record.request.pool, self._backends[0])
            shares[self._backends.index(backend)].append(record)
            if record.request.pool in self._by_pool:
                self._note(record.request)
        for number, share in shares.items():
            orders = [replace(r, request=self._whole(r.request)) for r in share]
            await self._backends[number].restore(orders)

    def _whole(self, request: AllocationRequest) -> AllocationRequest:
        return replace(request, job=self._moves.noted(request.job))

    def explain(self, allocation_id: str) -> Reason | None:
        if (unplaced := self._unplaced.get(allocation_id)) is not None:
            text = (
                f"there is no resource pool '{unplaced.pool}' any more: add it to master.yaml again"
            )
            return Reason(kind=ReasonKind.NO_SUCH_AGENT, text=text)
        backend = self._owner(allocation_id)
        reason = backend.explain(allocation_id) if backend is not None else None
        return self._moves.explain(allocation_id, self._auto.explain(allocation_id, reason))

    async def expected_start(self, allocation_id: str) -> datetime | None:
        backend = self._owner(allocation_id)
        return await backend.expected_start(allocation_id) if backend is not None else None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for backend in self._backends:
                tasks.create_task(backend.run())
            tasks.create_task(self._moves.run())

    # Observer

    def pools_view(self) -> Sequence[PoolView]:
        views = [view for backend in self._backends for view in backend.observer.pools_view()]
        by_name = {view.name: view for view in views}
        return tuple(by_name[pool] for pool in self._by_pool)

    def scheduler(self, pool: str) -> SchedulerSettings | None:
        return self._backend(pool).observer.scheduler(pool)

    def jobs_in(self, pool: str) -> Sequence[JobInPool]:
        return self._backend(pool).observer.jobs_in(pool)

    def queue(self, pool: str, job_id: str | None = None) -> Sequence[QueueEntry]:
        return self._backend(pool).observer.queue(pool, job_id)

    def waiting_by_kind(self, pool: str) -> Mapping[ReasonKind, int]:
        return self._backend(pool).observer.waiting_by_kind(pool)

    def away(self, job_id: str) -> Sequence[str]:
        """The pools that work of a job has fallen back to, and waits or runs in."""
        return tuple(sorted({*self._moves.away(job_id), *self._auto.away(job_id)}))

    def agents(self) -> Sequence[AgentView]:
        views = [view for backend in self._backends for view in backend.observer.agents()]
        return tuple(sorted(views, key=lambda view: view.id))

    def agent_keys(self) -> Sequence[AgentKey]:
        keys = [key for backend in self._backends for key in backend.observer.agent_keys()]
        return tuple(sorted(keys, key=lambda key: key.id))

    def agent(self, agent_id: str) -> AgentView:
        return self._backend_of(agent_id).observer.agent(agent_id)

    def operator_of(self, agent_id: str) -> AgentOperator:
        """Raises NotFound, and InvalidState for an agent that others operate."""
        backend = self._backend_of(agent_id)
        if backend.operator is None:
            pool = backend.observer.agent(agent_id).pool
            raise InvalidState(
                f"agent '{agent_id}' of resource pool '{pool}' cannot be enabled, disabled or removed here: "
                "use the tools of the cluster that it belongs to"
            )
        return backend.operator

    def _backend_of(self, agent_id: str) -> RoutedBackend:
        for backend in self._backends:
            try:
                backend.observer.agent(agent_id)
            except NotFound:
                continue
            return backend
        raise NotFound("agent", agent_id)

    def _backend(self, pool: str) -> RoutedBackend:
        try:
            return self._by_pool[pool]
        except KeyError:
            raise NotFound("resource pool", pool) from None

    def _owner(self, allocation_id: str) -> RoutedBackend | None:
        return next((b for b in self._backends if b.knows(allocation_id)), None)
