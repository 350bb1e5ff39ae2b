"""Everything around pools of agents, in memory on virtual time: stores, a recording master, agents, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent_bootstrap.protocol import Channel, ChannelClosed, LogBatch, Message, RegistryCredentials
from master.core.fall_back import FallBackRule
from provisioner.sections.pools import ResolvedPool
from rm_backends.agents.agent_pools import AgentPools
from rm_backends.agents.backend import AgentsBackend
from rm_backends.agents.leased_nodes import LeasedNodes
from rm_backends.agents.pool import Decide
from rm_backends.agents.provisioned_nodes import ProvisionedNodes
from rm_backends.base import (
    AllocationRequest,
    ContainerPhase,
    Granted,
    JobOrder,
    LaunchSpec,
    Lost,
    ResourceChanged,
    RestoreRecord,
    RmEvent,
)
from rm_backends.ports import AgentRecord, JoinGrant, JoinUse
from rm_backends.router import Router
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.first_fit import first_fit
from tests.fakes.memory_channel import MemoryChannel, memory_channel
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.clock import Clock
from windlass.base.ids import Ids

SUBMITTED = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "join-token"
PEER = "10.9.9.9"
"""Where the master sees all agents."""


def allocation(
    number: int,
    *,
    slots: int = 1,
    pool: str = "default",
    job: str | None = None,
    single_agent: bool = False,
    blocked: frozenset[str] = frozenset(),
) -> AllocationRequest:
    """The request number `number`; a higher one is younger."""
    at = SUBMITTED.replace(microsecond=number)
    return AllocationRequest(
        allocation_id=f"task-{number}.1",
        task_id=f"task-{number}",
        name=f"Task {number}",
        pool=pool,
        slots=slots,
        job=JobOrder(job_id=job or f"job-{number}", submitted=at),
        requested=at,
        single_agent=single_agent,
        blocked_agents=blocked,
    )


def launch_spec(allocation_id: str) -> LaunchSpec:
    return LaunchSpec(
        allocation_id=allocation_id,
        task_id=allocation_id.rpartition(".")[0],
        task_type="TRIAL",
        entrypoint=("{python}", "train.py"),
        environment={"DET_ALLOCATION_ID": allocation_id},
    )


class MemoryAgentStore:
    def __init__(self) -> None:
        self.records: dict[str, AgentRecord] = {}
        self.spent: list[JoinUse] = []
        self.failure: Exception | None = None

    async def load(self) -> Sequence[AgentRecord]:
        return tuple(self.records.values())

    async def save(self, record: AgentRecord, use: JoinUse | None = None) -> None:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.records[record.agent_id] = record
        self.spent += [use] if use is not None else []

    async def uses(self, token_id: str) -> Mapping[str, str]:
        return {u.agent_id: u.credential_hash for u in self.spent if u.token_id == token_id}

    async def remove(self, agent_id: str) -> None:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.records.pop(agent_id, None)


class MemoryLogSink:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.offsets: dict[str, int] = {}
        self.failures = 0

    async def ingest(self, batch: LogBatch) -> int:
        if self.failures:
            self.failures -= 1
            raise OSError("no space left")
        if batch.first_offset >= self.offsets.get(batch.container_id, 0):
            self.lines.extend(entry.log for entry in batch.entries)
            self.offsets[batch.container_id] = batch.next_offset
        return self.offsets[batch.container_id]


class OneToken:
    """The token of every pool, and whatever else a test grants."""

    def __init__(self) -> None:
        self.grants: dict[str, JoinGrant] = {}

    def find(self, pools: Collection[str], token: str) -> JoinGrant | None:
        grant = self.grants.get(token)
        if grant is not None:
            return grant if grant.pool in pools else None
        return JoinGrant(pool=next(iter(pools))) if token == TOKEN else None


class FewLogins:
    """Registry credentials by allocation id."""

    def __init__(self) -> None:
        self.known: dict[str, RegistryCredentials] = {}

    def registry_login(self, allocation_id: str) -> RegistryCredentials | None:
        return self.known.get(allocation_id)


class RecordingMaster:
    """Takes every event, once it may: `failures` is how many are refused first, `open` cleared holds them up."""

    def __init__(self) -> None:
        self.events: list[RmEvent] = []
        self.failures = 0
        self.open = asyncio.Event()
        self.open.set()
        self.waiting_events: list[RmEvent] = []
        self._changed = asyncio.Event()

    async def handle(self, event: RmEvent) -> None:
        self.waiting_events.append(event)
        self._note()
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("cannot commit")
        self.events.append(event)
        self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def of(self, allocation_id: str) -> list[RmEvent]:
        return [event for event in self.events if event.allocation_id == allocation_id]

    def grant_of(self, allocation_id: str) -> Granted | None:
        grants = [e for e in self.of(allocation_id) if isinstance(e, Granted)]
        return grants[-1] if grants else None

    def losses(self, allocation_id: str) -> list[str]:
        return [e.reason for e in self.of(allocation_id) if isinstance(e, Lost)]

    def phases(self, allocation_id: str) -> list[ContainerPhase]:
        return [e.phase for e in self.of(allocation_id) if isinstance(e, ResourceChanged)]

    def exits(self, allocation_id: str) -> list[ResourceChanged]:
        return [
            e
            for e in self.of(allocation_id)
            if isinstance(e, ResourceChanged) and e.exit is not None
        ]

    async def granted(self, allocation_id: str) -> Granted:
        await self.until(lambda: self.grant_of(allocation_id) is not None)
        grant = self.grant_of(allocation_id)
        assert grant is not None
        return grant

    async def running(self, allocation_id: str, count: int = 1) -> None:
        await self.until(lambda: self.phases(allocation_id).count(ContainerPhase.RUNNING) >= count)

    async def ended(self, allocation_id: str, count: int = 1) -> list[ResourceChanged]:
        await self.until(lambda: len(self.exits(allocation_id)) >= count)
        return self.exits(allocation_id)

    async def lost(self, allocation_id: str) -> str:
        await self.until(lambda: bool(self.losses(allocation_id)))
        return self.losses(allocation_id)[0]


def memory_pools(clock: Clock, **parts: Any) -> AgentPools:
    """With everything in memory that is not given."""
    others = {
        "events": RecordingMaster(),
        "agent_store": MemoryAgentStore(),
        "log_sink": MemoryLogSink(),
        "join_tokens": OneToken(),
        "logins": FewLogins(),
        "ids": Ids.seeded(1),
        "epoch": 1,
    }
    parts = others | parts
    master_id = f"master-{parts['epoch']}"
    return AgentPools(
        clock=clock, master_id=master_id, cluster_id="cluster", cluster_name="test", **parts
    )


@dataclass(slots=True)
class AgentsWorld:
    """One cluster. `backend` is the present master's; `restart` replaces it."""

    tasks: asyncio.TaskGroup
    pools: Sequence[ResolvedPool]
    decide: Decide = first_fit
    clock: LoopClock = field(default_factory=LoopClock)
    ids: Ids = field(default_factory=lambda: Ids.seeded(1))
    master: RecordingMaster = field(default_factory=RecordingMaster)
    store: MemoryAgentStore = field(default_factory=MemoryAgentStore)
    logs: MemoryLogSink = field(default_factory=MemoryLogSink)
    tokens: OneToken = field(default_factory=OneToken)
    logins: FewLogins = field(default_factory=FewLogins)
    agents: dict[str, FakeAgent] = field(default_factory=dict)
    epoch: int = 0
    channels: list[MemoryChannel] = field(default_factory=list)
    """The agents' ends, in the order of their connections."""
    fall_back: Mapping[str, FallBackRule] | None = None
    """Given: the master uses a router with these rules."""
    batch: Callable[[AgentPools], AgentsBackend] | None = None
    """Makes the resource manager of batch jobs, which is then `backend`."""
    backends: list[AgentsBackend] = field(default_factory=list)
    _router: Router | None = None
    _backend: AgentsBackend | None = None
    _shared: AgentPools | None = None
    _nodes: ProvisionedNodes | None = None
    _of_master: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def backend(self) -> AgentsBackend:
        assert self._backend is not None
        return self._backend

    @property
    def shared(self) -> AgentPools:
        assert self._shared is not None
        return self._shared

    @property
    def nodes(self) -> ProvisionedNodes:
        """As the provisioner sees them."""
        assert self._nodes is not None
        return self._nodes

    @property
    def leased(self) -> LeasedNodes:
        return LeasedNodes(self.shared)

    @property
    def router(self) -> Router:
        assert self._router is not None
        return self._router

    async def start_master(self, records: Sequence[RestoreRecord] = ()) -> None:
        self.epoch += 1
        self._shared = shared = memory_pools(
            self.clock,
            events=self.master,
            agent_store=self.store,
            log_sink=self.logs,
            join_tokens=self.tokens,
            logins=self.logins,
            ids=self.ids,
            epoch=self.epoch,
        )
        self._backend = AgentsBackend(shared, self.pools, self.decide)
        self._nodes = ProvisionedNodes(shared, self._backend.by_name.values())
        self.backends = [self._backend]
        if self.batch is not None:
            self._backend = self.batch(shared)
            self.backends.append(self._backend)
        manager: AgentsBackend | Router = self._backend
        if self.fall_back is not None or self.batch is not None:
            manager = self._router = Router(
                self.backends, fall_back=self.fall_back, clock=self.clock
            )
        await shared.load()
        await manager.restore(records)
        self._of_master += [self.tasks.create_task(one.run()) for one in (shared, manager)]

    async def stop_master(self) -> None:
        """As by kill -9: connections break, what was in memory is gone."""
        for task in self._of_master:
            task.cancel()
        await asyncio.gather(*self._of_master, return_exceptions=True)
        self._of_master.clear()
        for channel in self.channels:
            channel.cut()
        self._backend = None

    async def restart(self, records: Sequence[RestoreRecord] = ()) -> None:
        await self.stop_master()
        await self.start_master(records)

    def connect(self, *, pool: str, token: str = TOKEN, credential: str = "") -> MemoryChannel:
        """The agent's end of a new connection. Raises ChannelClosed while there is no master."""
        if self._backend is None:
            raise ChannelClosed("no master")
        agent_end, master_end = memory_channel()
        serving = self.shared.gateway.serve(
            master_end, pool=pool, token=token, credential=credential, peer=PEER
        )
        self._of_master.append(self.tasks.create_task(serving))
        self.channels.append(agent_end)
        return agent_end

    def new_agent(
        self, agent_id: str, *, token: str = TOKEN, credential: str = "", **options: Any
    ) -> FakeAgent:
        """An agent that is not running yet."""
        pool = options.setdefault("pool", "default")

        async def dial() -> Channel:
            return self.connect(pool=pool, token=token, credential=credential)

        options.setdefault("address", f"addr-{agent_id}")
        return FakeAgent(agent_id=agent_id, dial=dial, clock=self.clock, **options)

    async def add_agent(self, agent_id: str, **options: Any) -> FakeAgent:
        """An agent that is connected."""
        agent = self.agents[agent_id] = self.new_agent(agent_id, **options)
        self.tasks.create_task(agent.run())
        await agent.until(lambda: agent.connected)
        return agent

    async def run_allocation(self, request: AllocationRequest) -> Granted:
        """Request, start and wait until every container runs."""
        await self.backend.request(request)
        grant = await self.master.granted(request.allocation_id)
        await self.backend.start(request.allocation_id, launch_spec(request.allocation_id))
        await self.master.running(request.allocation_id, len(grant.containers))
        return grant

    async def settle(self, seconds: float = 1.0) -> None:
        """Let everything happen that happens within `seconds`: virtual ones, so nothing waits."""
        await asyncio.sleep(seconds)


@asynccontextmanager
async def agents_world(
    *pools: ResolvedPool,
    decide: Decide = first_fit,
    fall_back: Mapping[str, FallBackRule] | None = None,
    starts: bool = True,
) -> AsyncIterator[AgentsWorld]:
    """A cluster with a running master, if it `starts`; ended with everything in it."""

    class _Over(Exception):
        pass

    try:
        async with asyncio.TaskGroup() as tasks:
            if starts and not pools:
                pools = (resolved_pool("default"),)
            world = AgentsWorld(tasks, pools, decide, fall_back=fall_back)
            if starts:
                await world.start_master()
            try:
                yield world
                raise _Over
            finally:
                world._backend = None
    except* _Over:
        pass


def play(
    scenario: Callable[[AgentsWorld], Awaitable[None]],
    *pools: ResolvedPool,
    decide: Decide = first_fit,
) -> None:
    """On virtual time, to its end."""

    async def main() -> None:
        async with agents_world(*pools, decide=decide) as world:
            await scenario(world)

    run(main(), limit_s=24 * 3600)


def sent_to(agent: FakeAgent, kind: type[Message]) -> list[Message]:
    """Messages of one type that the agent has received, oldest first."""
    return [message for message in agent.received if isinstance(message, kind)]


@dataclass
class Machines:
    """What providers made: launch id -> names; a launch that is not in it has not been answered."""

    made: dict[str, frozenset[str]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)

    def is_instance(self, name: str) -> bool:
        return any(name in names for names in self.made.values())

    def is_stopped(self, name: str) -> bool:
        return name in self.stopped

    def launched_by(self, launch_id: str) -> frozenset[str] | None:
        return self.made.get(launch_id)
