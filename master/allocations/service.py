"""The door of allocations: events of resource managers come in, tasks ask and wait, effects go out.

State lives with the owner's root and changes only through `AllocationOwner.step_allocation`. What is kept here is what
may be lost: who waits at a barrier or in a long poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from agent_bootstrap.container_options import ProxyPort
from agent_bootstrap.protocol import RegistryCredentials
from master.allocations import machine
from master.allocations.effects import (
    AskResources,
    Closed,
    Effect,
    KillContainers,
    SignalPreemption,
    StartContainers,
    Withdraw,
)
from master.allocations.machine import AllocationState
from master.allocations.ports import AllocationOwner, AllocationStep
from master.allocations.rendezvous import AllGather, Rendezvous, RendezvousInfo
from master.allocations.tokens import AllocationTokenMint
from master.allocations.unique_ports import UniquePorts
from master.auth.principal import TaskIdentity
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from rm_backends.base import (
    AlreadyGranted,
    Container,
    ContainerPhase,
    Granted,
    Lost,
    Refused,
    ReleaseAsked,
    ResourceChanged,
    ResourceManager,
    RestoreRecord,
    RmEvent,
)
from windlass.base.clock import Clock
from windlass.base.errors import InvalidArgument, LeaseLost, NotFound
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

EFFECTS_AT_ONCE = 200
"""Then others get a turn: a large search that is moved or paused has tens of thousands."""
RETRY_S = 1.0
"""Pause before failed effects are tried again."""
MAX_POLL_S = 600.0
"""No long poll is held longer, whatever the caller asks for."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A task was asked to leave."""

    reason: str
    deadline: datetime | None
    """What still runs then is killed."""


@dataclass(frozen=True, slots=True)
class ServedPorts:
    """What a running task serves through the proxy."""

    container: Container
    """The first of the task's."""
    identity: TaskIdentity
    ports: Mapping[str, ProxyPort]
    """As `AllocationOwner.proxied_ports` names them."""
    note_activity: Callable[[], None]


def service_name(task_id: str, name: str) -> str:
    """What the proxy calls a port of a task. `name`: as in `ServedPorts.ports`."""
    return f"{task_id}:{name}" if name else task_id


class AllocationService:
    """Implements `rm_backends.base.RmEvents`, `rm_backends.ports.RegistryLogins` and
    `master.auth.principal.AllocationTokens`."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        mint: AllocationTokenMint,
        ports: UniquePorts,
    ) -> None:
        self._store = store
        self._clock = clock
        self._mint = mint
        self._ports = ports
        self._rm: ResourceManager | None = None
        self._owners: dict[str, AllocationOwner] = {}
        self._by_token: dict[str, str] = {}
        self._by_task: dict[str, str] = {}
        self._task_of: dict[str, str] = {}
        self._rendezvous = Rendezvous()
        self._all_gather = AllGather()
        self._preempt: dict[str, asyncio.Event] = {}
        self._failed: list[Effect] = []
        self._retries = Loop("retry of effects", self._retry, interval_s=60.0)

    def connect(self, rm: ResourceManager) -> None:
        """Called once by `master.app`: resource managers need this service as their event sink first."""
        self._rm = rm

    @property
    def rm(self) -> ResourceManager:
        if self._rm is None:
            raise RuntimeError("AllocationService.connect was not called")
        return self._rm

    # --- ownership ------------------------------------------------------------------------------------------------

    def adopt(self, state: AllocationState, owner: AllocationOwner) -> None:
        """From now on events of this allocation go to `owner`. Also learns its token and ports."""
        self._owners[state.id] = owner
        self._by_task[state.task_id] = state.id
        self._task_of[state.id] = state.task_id
        if state.token_hash is not None:
            self._by_token[state.token_hash] = state.id
        if state.ports:
            self._ports.hold(state.id, state.ports.values())

    def restore_record(self, state: AllocationState, owner: AllocationOwner) -> RestoreRecord:
        """What the resource manager must know of an open allocation after a restart."""
        return RestoreRecord(
            request=owner.allocation_request(state),
            containers=tuple(c.container for c in state.containers),
            started=state.started_at is not None or state.kill_reason is not None,
            ended_containers=frozenset(
                c.container.container_id for c in state.containers if c.ended
            ),
        )

    def owner_of(self, token_hash: str) -> TaskIdentity | None:
        """Whose token it is; None once the allocation has ended."""
        allocation_id = self._by_token.get(token_hash)
        owner = self._owners.get(allocation_id) if allocation_id is not None else None
        if allocation_id is None or owner is None:
            return None
        state = owner.allocation(allocation_id)
        if state is None or state.token_hash is None:  # revoked, though not yet forgotten here
            return None
        return _identity(state, owner)

    def identity(self, allocation_id: str) -> TaskIdentity | None:
        """Of a current allocation, else None."""
        owner = self._owners.get(allocation_id)
        state = owner.allocation(allocation_id) if owner is not None else None
        return _identity(state, owner) if state is not None and owner is not None else None

    def state(self, allocation_id: str) -> AllocationState:
        """The live state of a current allocation. Raises NotFound."""
        owner = self._owners.get(allocation_id)
        state = owner.allocation(allocation_id) if owner is not None else None
        if state is None:
            raise NotFound("allocation", allocation_id)
        return state

    def served(self, task_id: str) -> ServedPorts | None:
        """None: no such task runs."""
        allocation_id = self._by_task.get(task_id, "")
        owner = self._owners.get(allocation_id)
        state = owner.allocation(allocation_id) if owner is not None else None
        if owner is None or state is None:
            return None
        first = min(state.containers, key=lambda c: c.container.rank, default=None)
        if first is None or first.phase is not ContainerPhase.RUNNING:
            return None
        return ServedPorts(
            first.container,
            _identity(state, owner),
            owner.proxied_ports(state),
            owner.note_activity,
        )

    def registry_login(self, allocation_id: str) -> RegistryCredentials | None:
        owner = self._owners.get(allocation_id)
        state = owner.allocation(allocation_id) if owner is not None else None
        if owner is None or state is None or not state.is_open:
            return None
        return owner.registry_login(state)

    # --- events of resource managers ------------------------------------------------------------------------------

    async def handle(self, event: RmEvent) -> None:
        """Returns once the consequences are committed. Events for what is history are answered, not failed."""
        owner = self._owners.get(event.allocation_id)
        if owner is None or owner.allocation(event.allocation_id) is None:
            if isinstance(event, Granted):
                await self.rm.kill(event.allocation_id)
            return
        if isinstance(event, Granted):
            await self._granted(owner, event)
        elif isinstance(event, ReleaseAsked):
            await owner.step_allocation(
                event.allocation_id,
                partial(
                    machine.terminate,
                    reason=event.reason,
                    now=self._clock.now(),
                    deadline=event.deadline,
                    kind=event.kind,
                ),
            )
        elif isinstance(event, ResourceChanged):
            await owner.step_allocation(
                event.allocation_id,
                lambda s: machine.container_changed(
                    s, event.container_id, event.phase, event.exit, now=self._clock.now()
                ),
            )
        elif isinstance(event, Lost):
            await owner.step_allocation(
                event.allocation_id,
                partial(
                    machine.lost,
                    reason=event.reason,
                    now=self._clock.now(),
                    kind=event.kind,
                ),
            )
        elif isinstance(event, Refused):
            await owner.step_allocation(
                event.allocation_id,
                partial(machine.refused, reason=event.reason, now=self._clock.now()),
            )

    async def _granted(self, owner: AllocationOwner, event: Granted) -> None:
        current = owner.allocation(event.allocation_id)
        if current is not None and current.has_slots:
            await self.run_effects(machine.pending_effects(current))
            return
        ports = self._ports.take(event.allocation_id, owner.unique_ports())
        hash_ = self._mint.hash(event.allocation_id)

        def step(state: AllocationState) -> machine.Step:
            return machine.granted(
                state,
                event.containers,
                token_hash=hash_,
                ports=ports,
                pool=event.pool,
                why=event.why,
            )

        # Valid before the task can use it: the step starts the task as soon as it is committed.
        self._by_token[hash_] = event.allocation_id
        await owner.step_allocation(event.allocation_id, step)

    # --- effects --------------------------------------------------------------------------------------------------

    async def run_effects(self, effects: Iterable[Effect]) -> None:
        """Carry out what a committed step asked for. What fails is tried again by `run` until it works."""
        for number, effect in enumerate(effects, 1):
            if number % EFFECTS_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                await self._run(effect)
            except LeaseLost:
                raise
            except Exception:
                log.exception(
                    "effect failed", effect=type(effect).__name__, id=effect.allocation_id
                )
                self._failed.append(effect)
                self._retries.wake()

    async def run(self) -> None:
        """Owned by the application's task group."""
        await self._retries.run()

    async def _retry(self) -> None:
        if self._failed:
            await asyncio.sleep(RETRY_S)
            failed, self._failed = self._failed, []
            await self.run_effects(failed)

    async def _run(self, effect: Effect) -> None:
        allocation_id = effect.allocation_id
        if isinstance(effect, Closed):
            self._closed(allocation_id)
            return
        owner = self._owners.get(allocation_id)
        state = owner.allocation(allocation_id) if owner is not None else None
        if isinstance(effect, Withdraw):
            if isinstance(await self.rm.withdraw(allocation_id), AlreadyGranted):
                await self.rm.kill(allocation_id)
        elif isinstance(effect, KillContainers):
            await self.rm.kill(allocation_id)
        elif owner is None or state is None:
            return
        elif isinstance(effect, AskResources):
            await self.rm.request(owner.allocation_request(state))
        elif isinstance(effect, StartContainers) and effect in machine.pending_effects(state):
            # A start that is tried again must not come after a kill.
            spec = owner.launch_spec(state, self._mint.token(allocation_id))
            await self.rm.start(allocation_id, spec)
        elif isinstance(effect, SignalPreemption):
            self._preempt_event(allocation_id).set()
            await self.rm.release(allocation_id, state.preempt_reason or "", state.preempt_deadline)

    def _closed(self, allocation_id: str) -> None:
        """Wake everybody who waits on it and forget it. Its token died with the commit."""
        self._rendezvous.drop(allocation_id)
        self._all_gather.drop(allocation_id)
        event = self._preempt.pop(allocation_id, None)
        if event is not None:
            event.set()
        self._ports.free(allocation_id)
        self._owners.pop(allocation_id, None)
        task_id = self._task_of.pop(allocation_id, "")
        if self._by_task.get(task_id) == allocation_id:
            del self._by_task[task_id]
        self._by_token.pop(self._mint.hash(allocation_id), None)

    # --- what tasks ask -------------------------------------------------------------------------------------------

    async def rendezvous(self, allocation_id: str, container_id: str) -> RendezvousInfo:
        """Blocks until every container of the allocation has asked, then tells each who they are."""
        containers = self._containers(allocation_id)
        expected = frozenset(c.container_id for c in containers)
        if container_id not in expected:
            raise NotFound("resources", container_id)
        if not self.state(allocation_id).ready:
            # Once ready, those who were answered do not come again; who lost the answer (a restart) need not wait.
            if self._rendezvous.arrive(allocation_id, container_id, expected):
                await self.mark_ready(allocation_id)
            await self._rendezvous.wait(allocation_id)
            self.state(allocation_id)  # it may have ended meanwhile
        rank = next(i for i, c in enumerate(containers) if c.container_id == container_id)
        return RendezvousInfo(
            addresses=tuple(c.address for c in containers),
            slots=tuple(len(c.slot_ids) for c in containers),
            rank=rank,
        )

    async def all_gather(
        self, allocation_id: str, request_uuid: str, num_peers: int, data: Any
    ) -> list[Any]:
        self.state(allocation_id)
        gathered = await self._all_gather.gather(allocation_id, request_uuid, num_peers, data)
        await self.mark_ready(allocation_id)
        return gathered

    async def preemption_signal(
        self, allocation_id: str, timeout_s: float, *, by_task: bool = True
    ) -> Preemption | None:
        """As soon as the task should leave; None after `timeout_s`, or at once if the allocation is over.

        `by_task`: it asks itself, so it listens.
        """
        owner = self._owners.get(allocation_id)
        if owner is not None and by_task:
            await owner.note_listening(allocation_id)
        state = owner.allocation(allocation_id) if owner is not None else None
        if state is None or not state.is_open:
            return None
        if state.preempt_requested:
            return _preemption(state)
        if timeout_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(timeout_s, MAX_POLL_S)):
                    await self._preempt_event(allocation_id).wait()
        state = owner.allocation(allocation_id) if owner is not None else None
        return _preemption(state) if state is not None and state.is_open else None

    async def acknowledge_preemption(self, allocation_id: str) -> None:
        await self._step(allocation_id, lambda s: (machine.acknowledged(s), ()))

    async def mark_ready(self, allocation_id: str, os_user: str = "") -> None:
        await self._step(allocation_id, lambda s: (machine.marked_ready(s, os_user), ()))

    async def another_port(self, allocation_id: str, variable: str, taken: int) -> int:
        """For its service: somebody else on the node listens on `taken`. The same answer when asked again.

        Raises InvalidArgument for a service that it does not have, CapacityError if none is left.
        """
        current = self.state(allocation_id).ports.get(variable)
        if current is None:
            raise InvalidArgument(f'variable: allocation {allocation_id} has no port "{variable}"')
        if current != taken:
            return current
        port = self._ports.take_another(allocation_id, variable, above=current)
        await self._step(allocation_id, lambda s: (machine.moved_to_port(s, variable, port), ()))
        return port

    async def mark_daemon(self, allocation_id: str, container_id: str) -> None:
        now = self._clock.now()
        if container_id not in {c.container_id for c in self._containers(allocation_id)}:
            raise NotFound("resources", container_id)
        await self._step(allocation_id, lambda s: machine.marked_daemon(s, container_id, now=now))

    async def preempt(self, allocation_id: str, reason: str) -> None:
        """Somebody outside (a batch system, a cloud) announces that the slots will go."""
        now = self._clock.now()
        await self._step(allocation_id, lambda s: machine.terminate(s, reason, now=now))

    async def record_accelerators(
        self, allocation_id: str, container_id: str, node: str, kind: str, uuids: list[str]
    ) -> None:
        self.state(allocation_id)
        uow = UnitOfWork()
        uow.upsert(
            tables.AllocationAccelerator,
            {
                "allocation_id": allocation_id,
                "container_id": container_id,
                "node_name": node,
                "accelerator_type": kind,
                "accelerator_uuids": uuids,
            },
        )
        await self._store.commit(uow)

    async def _step(self, allocation_id: str, step: AllocationStep) -> None:
        owner = self._owners.get(allocation_id)
        if owner is None:
            raise NotFound("allocation", allocation_id)
        await owner.step_allocation(allocation_id, step)

    def _containers(self, allocation_id: str) -> list[Container]:
        containers = (c.container for c in self.state(allocation_id).containers)
        return sorted(containers, key=lambda c: c.rank)

    def _preempt_event(self, allocation_id: str) -> asyncio.Event:
        return self._preempt.setdefault(allocation_id, asyncio.Event())

    def open_states(self, ids: Iterable[str] | None = None) -> Mapping[str, AllocationState]:
        """Open allocations, for screens: of these ids, or all (there may be many)."""
        found = {}
        for allocation_id in self._owners if ids is None else ids:
            owner = self._owners.get(allocation_id)
            state = owner.allocation(allocation_id) if owner is not None else None
            if state is not None and state.is_open:
                found[allocation_id] = state
        return found


def _preemption(state: AllocationState) -> Preemption | None:
    if state.preempt_reason is None:
        return None
    return Preemption(state.preempt_reason, state.preempt_deadline)


def _identity(state: AllocationState, owner: AllocationOwner) -> TaskIdentity:
    return TaskIdentity(owner.owner_id(state.id), state.id, state.task_id, owner.experiment_id)
