"""The resource manager over pools of agents, and the host of the provisioner's nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from agent_bootstrap.protocol import Channel, Leaving, Welcome
from master.core.actor import Actor
from master.core.fall_back import Prospect
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.dispatch import decide_dispatch
from master.core.scheduler.types import Running, SchedulerSettings
from provisioner.types import PoolAvailability, PoolCapacity, PoolDemand
from rm_backends.agents.excluded_nodes import avoided_by_all, disabled_nodes
from rm_backends.agents.fit import notes_on_fit, require_fit
from rm_backends.agents.gateway import Gateway
from rm_backends.agents.joins import Joins
from rm_backends.agents.options import PoolOptions
from rm_backends.agents.pool import Decide, Pool
from rm_backends.agents.refusals import Refusals
from rm_backends.agents.registry import Registry
from rm_backends.agents.views import abilities, agent_view, jobs_view, pool_view, queue_view
from rm_backends.base import (
    Abilities,
    AllocationHint,
    AllocationRequest,
    AlreadyGranted,
    JobOrder,
    LaunchSpec,
    LossKind,
    Lost,
    Refused,
    RestoreRecord,
    RmEvents,
    Withdrawn,
)
from rm_backends.outbox import Outbox
from rm_backends.ports import (
    AgentStore,
    JoinTokens,
    LaunchedMachines,
    LogSink,
    RegistryLogins,
    SlotService,
)
from rm_backends.views import (
    AgentKey,
    AgentView,
    Foreseen,
    JobInPool,
    PoolView,
    QueueEntry,
    RefusalView,
    SlotView,
)
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, NotFound, Unsatisfiable
from windlass.base.ids import Ids
from windlass.base.loop import Loop

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""How exactly reconnect windows are kept."""


class AgentsBackend:
    """Implements `rm_backends.base.ResourceManager`, `rm_backends.observer` and `provisioner.ports.NodeHost`.

    `restore` comes first, then `run` for as long as the master leads; `serve` is called for each connection.
    """

    def __init__(
        self,
        *,
        pools: Sequence[PoolOptions],
        events: RmEvents,
        agent_store: AgentStore,
        log_sink: LogSink,
        join_tokens: JoinTokens,
        logins: RegistryLogins,
        clock: Clock,
        ids: Ids,
        epoch: int,
        master_id: str,
        cluster_id: str,
        cluster_name: str,
        decide: Decide,
        certificates: Callable[[], str] = str,
    ) -> None:
        self._outbox = Outbox(events)
        self._pools: dict[str, Pool] = {}
        for options in pools:
            if options.name in self._pools:
                raise InvalidArgument(f"two resource pools are called '{options.name}'")
            self._pools[options.name] = Pool(
                options,
                decide=decide_dispatch if options.dispatch else decide,
                outbox=self._outbox,
                clock=clock,
                ids=ids,
                epoch=epoch,
            )
        welcome = Welcome(
            epoch=epoch,
            master_id=master_id,
            cluster_id=cluster_id,
            cluster_name=cluster_name,
            answers_logins=True,
        )
        self._registry = Registry(
            pools=self._pools,
            store=agent_store,
            clock=clock,
            welcome=welcome,
            certificates=certificates,
        )
        self._refusals = Refusals()
        self._gateway = Gateway(
            registry=self._registry,
            pools=self._pools.keys(),
            log_sink=log_sink,
            join_tokens=join_tokens,
            logins=logins,
            refusals=self._refusals,
            clock=clock,
        )
        self._joins = Joins(
            registry=self._registry,
            pools=self._pools.keys(),
            join_tokens=join_tokens,
            refusals=self._refusals,
            clock=clock,
        )
        self._check_dispatch: Callable[[AllocationRequest], Sequence[str]] = lambda _: ()
        self._may_go_elsewhere: Callable[[str], bool] = lambda _: False
        self._looking = Loop("agents", self._registry.look, interval_s=LOOK_EVERY_S)

    # The calls of the master

    def pools(self) -> Sequence[str]:
        return tuple(self._pools)

    def knows(self, allocation_id: str) -> bool:
        """Whether it waits or holds something here."""
        return self._pool_of(allocation_id) is not None

    def check(self, request: AllocationRequest) -> Sequence[str]:
        pool = self._pool(request.pool)
        if pool.options.dispatch:
            return self._check_dispatch(request)
        require_fit(pool, request)
        return notes_on_fit(pool, request)

    def abilities(self, pool: str) -> Abilities | None:
        found = self._pool(pool)
        return abilities(found.agents.values(), found.options.container_runtime)

    async def request(self, request: AllocationRequest) -> None:
        pool = self._pool_of(request.allocation_id) or self._pool(request.pool)
        pool.add(request)

    async def withdraw(self, allocation_id: str) -> Withdrawn | AlreadyGranted:
        pool = self._pool_of(allocation_id)
        if pool is None or pool.withdraw(allocation_id):
            return Withdrawn(allocation_id=allocation_id)
        return AlreadyGranted(allocation_id=allocation_id)

    async def start(self, allocation_id: str, spec: LaunchSpec) -> None:
        """Without a reservation the answer is `Lost`: whoever starts it must learn that nothing will come."""
        pool = self._pool_of(allocation_id)
        entry = pool.assignments.entries.get(allocation_id) if pool is not None else None
        if pool is None or entry is None:
            self._outbox.post(Lost(allocation_id=allocation_id, reason="its reservation is gone"))
            return
        pool.assignments.start(entry, spec)

    async def release(self, allocation_id: str, reason: str, deadline: datetime | None) -> None:
        """Agents are not told: the task learns it from the master, which also keeps the deadline."""
        if (pool := self._pool_of(allocation_id)) is not None:
            pool.releasing(allocation_id)

    async def kill(self, allocation_id: str) -> None:
        pool = self._pool_of(allocation_id)
        if pool is None or pool.withdraw(allocation_id):
            return
        pool.assignments.kill(pool.assignments.entries[allocation_id])

    async def update_job(self, order: JobOrder) -> None:
        for pool in self._pools.values():
            pool.update_job(order)

    def hint(self, note: AllocationHint) -> None:
        if (pool := self._pool_of(note.allocation_id)) is not None:
            pool.hint(note)

    async def restore(self, records: Sequence[RestoreRecord]) -> None:
        await self._registry.load()
        for record in records:
            request = record.request
            pool = self._pools.get(request.pool)
            if pool is None:
                reason = f"there is no resource pool '{request.pool}' any more"
                self._outbox.post(Lost(allocation_id=request.allocation_id, reason=reason))
            elif not record.containers:
                pool.add(request)
            elif not pool.knows(request.allocation_id):
                pool.note_job(request.job)
                pool.assignments.restore(record)
        self._registry.enforce()

    def explain(self, allocation_id: str) -> Reason | None:
        pool = self._pool_of(allocation_id)
        return pool.explain(allocation_id) if pool is not None else None

    async def expected_start(self, allocation_id: str) -> datetime | None:
        pool = self._pool_of(allocation_id)
        return await pool.expected_start(allocation_id) if pool is not None else None

    async def prospects(
        self, pool: str, requests: Sequence[AllocationRequest]
    ) -> Mapping[str, Prospect]:
        """Raises NotFound."""
        never: dict[Hashable, bool] = {}
        able = []
        for request in requests:
            if (key := request.shape) not in never:
                never[key] = not self._could_hold(replace(request, pool=pool))
            if not never[key]:
                able.append(request)
        return await self._pool(pool).prospects(able)

    async def foresee(self, requests: Sequence[AllocationRequest]) -> Mapping[str, Foreseen]:
        """What would become of these if they came now, by allocation id; left out: those of other backends."""
        told: dict[str, Foreseen] = {}
        for name, pool in self._pools.items():
            if mine := [request for request in requests if request.pool == name]:
                told |= await pool.foresee(mine)
        return told

    def _could_hold(self, request: AllocationRequest) -> bool:
        try:
            self.check(request)
        except Unsatisfiable:
            return False
        return True

    async def run(self) -> None:
        self._registry.open_windows()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._outbox.run())
            tasks.create_task(self._looking.run())
            for pool in self._pools.values():
                tasks.create_task(pool.loop.run())

    # The connections of agents

    def stranger_reason(
        self, *, pool: str, agent_id: str, token: str, peer: str, credential: str = ""
    ) -> str:
        """Why a connection that shows these is not even accepted; empty if it is."""
        return self._gateway.stranger_reason(
            pool=pool, agent_id=agent_id, token=token, peer=peer, credential=credential
        )

    async def serve(
        self, channel: Channel, *, pool: str, token: str, peer: str, credential: str = ""
    ) -> None:
        """One connection, until it ends."""
        await self._gateway.serve(channel, pool=pool, token=token, peer=peer, credential=credential)

    @property
    def joins(self) -> Joins:
        """What machines ask before and after their agents run."""
        return self._joins

    # What the provisioner sees

    def set_provisioner(
        self,
        *,
        wake: Callable[[], None],
        capacity: Callable[[str], PoolCapacity | None],
        note_agent: Callable[[str, bool], None],
        machines: LaunchedMachines,
        may_be_away: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`wake` when demand changes; `capacity` of a pool by name; `note_agent` when one connects (True) or leaves;
        `machines`: what providers made; `may_be_away`: such an agent is not lost for not being connected."""
        self._registry.watch(note_agent, machines, may_be_away)
        for pool in self._pools.values():
            if pool.options.dynamic and not pool.options.dispatch:
                pool.demand_changed = wake
                pool.capacity = None if pool.options.closed else capacity

    def demand(self) -> Sequence[PoolDemand]:
        pools = self._pools.values()
        return tuple(p.demand for p in pools if p.options.dynamic and not p.options.dispatch)

    def cordon(self, agent_id: str) -> bool:
        return self._registry.departures.cordon(agent_id)

    def uncordon(self, agent_id: str) -> None:
        self._registry.departures.uncordon(agent_id)

    def drain(self, agent_id: str) -> None:
        self._registry.departures.drain(agent_id)

    def disabled_nodes(self) -> frozenset[str]:
        agents = (agent for pool in self._pools.values() for agent in pool.agents.values())
        return disabled_nodes(agents)

    def avoided_nodes(self, pool: str) -> frozenset[str]:
        return avoided_by_all(entry.request for entry in self._pool(pool).waiting.values())

    def running(self, pool: str) -> Sequence[Running]:
        return self._pool(pool).running()

    def leave(self, agent_id: str, by: float, why: str, *, taken_back: bool = False) -> None:
        at = datetime.fromtimestamp(by, UTC)
        leaving = Leaving(at=at, reason=why, taken_back=taken_back)
        self._registry.departures.leave(agent_id, leaving)

    async def instance_gone(self, agent_id: str, reason: str) -> None:
        await self._registry.remove(agent_id, reason)

    async def job_gone(self, agent_id: str, reason: str) -> None:
        await self._registry.remove(agent_id, reason)

    def availability(self, availability: PoolAvailability) -> None:
        self._pool(availability.pool).set_availability(availability)

    # What dispatching sees: `rm_backends.batch.ports.LeaseHost`

    def set_dispatcher(
        self,
        *,
        wake: Callable[[], None],
        check: Callable[[AllocationRequest], Sequence[str]],
        is_instance: Callable[[str], bool],
        may_be_away: Callable[[str], bool],
        may_go_elsewhere: Callable[[str], bool],
    ) -> None:
        """`wake` when something waits or ends there; `check` raises Unsatisfiable; `is_instance`: whether an agent of
        a job is called so; `may_be_away`: such an agent is not lost for not being connected; `may_go_elsewhere`:
        whether another pool may take a request that its own pool never will."""
        self._check_dispatch = check
        self._may_go_elsewhere = may_go_elsewhere
        self._registry.watch_jobs(is_instance, may_be_away)
        for pool in self._pools.values():
            if pool.options.dispatch:
                pool.demand_changed = wake

    def wanting(self, pool: str) -> Sequence[AllocationRequest]:
        return self._pool(pool).wanting()

    def waits_or_holds(self, pool: str, allocation_id: str) -> bool:
        return self._pool(pool).knows(allocation_id)

    def holds(self, pool: str, allocation_id: str) -> bool:
        return allocation_id in self._pool(pool).assignments.entries

    def connected(self, agent_ids: Collection[str]) -> int:
        return sum(self._registry.is_connected(agent_id) for agent_id in agent_ids)

    def slots(self, agent_ids: Collection[str]) -> Mapping[str, int]:
        return self._registry.slots(agent_ids)

    def dismiss(self, agent_ids: Collection[str], reason: str) -> bool:
        return self._registry.dismiss(agent_ids, reason)

    def occupied(self, agent_ids: Collection[str]) -> bool:
        return self._registry.occupied(agent_ids)

    def refuse(self, pool: str, allocation_id: str, reason: str) -> None:
        entry = self._pool(pool).waiting.get(allocation_id)
        if entry is None or entry.refused or self._may_go_elsewhere(allocation_id):
            return
        entry.refused = True
        self._outbox.post(Refused(allocation_id=allocation_id, reason=reason))

    def lose(self, agent_ids: Collection[str], reason: str, kind: LossKind) -> bool:
        return self._registry.lose(agent_ids, reason, kind)

    # What operators and screens use

    @property
    def operator(self) -> AgentsBackend:
        return self

    def agents(self) -> Sequence[AgentView]:
        return tuple(self.agent(key.id) for key in self.agent_keys())

    def agent_keys(self) -> Sequence[AgentKey]:
        keys = [
            AgentKey(id=agent.id, registered=agent.record.first_seen)
            for pool in self._pools.values()
            for agent in pool.agents.values()
            if agent.is_listed
        ]
        return tuple(sorted(keys, key=lambda key: key.id))

    def agent(self, agent_id: str) -> AgentView:
        """Raises NotFound."""
        return agent_view(*self._registry.get(agent_id))

    def refused_agents(self) -> Sequence[RefusalView]:
        return self._refusals.all()

    def pools_view(self) -> Sequence[PoolView]:
        return tuple(pool_view(pool) for pool in self._pools.values())

    def scheduler(self, pool: str) -> SchedulerSettings:
        """Raises NotFound, as the next two."""
        return self._pool(pool).options.scheduler

    def jobs_in(self, pool: str) -> Sequence[JobInPool]:
        """Those that wait or hold slots, in no order, summed up."""
        return jobs_view(self._pool(pool))

    def queue(self, pool: str, job_id: str | None = None) -> Sequence[QueueEntry]:
        """What waits and what holds slots, in the order of jobs; of one job, or of all."""
        return queue_view(self._pool(pool), job_id)

    def waiting_by_kind(self, pool: str) -> Mapping[ReasonKind, int]:
        return self._pool(pool).waiting_by_kind()

    async def enable_agent(self, agent_id: str, *, by: Actor) -> AgentView:
        """Raises NotFound, as the next two."""
        await self._registry.set_service(agent_id, enabled=True, draining=False)
        self._registry.departures.stay(agent_id, tell=True)
        log.info("agent %s enabled by %s", agent_id, by)
        return self.agent(agent_id)

    async def disable_agent(self, agent_id: str, *, drain: bool, by: Actor) -> AgentView:
        """With `drain` what runs on it may finish, else it is stopped. It gets no new work either way."""
        await self._registry.set_service(agent_id, enabled=False, draining=drain)
        log.info("agent %s disabled by %s (drain: %s)", agent_id, by, drain)
        return self.agent(agent_id)

    def slot(self, agent_id: str, slot_id: int) -> SlotView:
        """Raises NotFound, as the next two."""
        for slot in self.agent(agent_id).slots:
            if slot.id == slot_id:
                return slot
        raise NotFound(f"agent '{agent_id}': slot", slot_id)

    async def enable_slot(self, agent_id: str, slot_id: int, *, by: Actor) -> SlotView:
        """It gets work again if its agent is enabled."""
        await self._registry.set_slot_service(agent_id, slot_id, None)
        log.info("slot %d of agent %s enabled by %s", slot_id, agent_id, by)
        return self.slot(agent_id, slot_id)

    async def disable_slot(
        self, agent_id: str, slot_id: int, *, drain: bool, by: Actor
    ) -> SlotView:
        """With `drain` what holds it may finish, else it is stopped. It gets no new work either way."""
        how = SlotService.DRAINING if drain else SlotService.DISABLED
        await self._registry.set_slot_service(agent_id, slot_id, how)
        log.info("slot %d of agent %s disabled by %s (drain: %s)", slot_id, agent_id, by, drain)
        return self.slot(agent_id, slot_id)

    async def forget_agent(self, agent_id: str, *, force: bool, by: Actor) -> AgentView:
        """It will not come back. Raises NotFound, and Conflict while it is connected, unless `force`."""
        was = self.agent(agent_id)
        await self._registry.forget(agent_id, force=force)
        log.warning(
            "agent %s forgotten by %s, with %d containers", agent_id, by, len(was.containers)
        )
        return was

    def _pool(self, name: str) -> Pool:
        try:
            return self._pools[name]
        except KeyError:
            raise NotFound("resource pool", name) from None

    def _pool_of(self, allocation_id: str) -> Pool | None:
        for pool in self._pools.values():
            if pool.knows(allocation_id):
                return pool
        return None
