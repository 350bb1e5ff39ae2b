"""What every resource manager must do, whatever gives it slots. Each implementation is one `Cluster` here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, cast

import pytest

from master.core.fall_back import FallBackRule, Prospect
from rm_backends.base import (
    AlreadyGranted,
    ContainerPhase,
    FellBack,
    Granted,
    ResourceManager,
    RestoreRecord,
    Withdrawn,
)
from rm_backends.moves import PoolBackend
from rm_backends.router import Router
from tests.fakes.agents_world import (
    AgentsWorld,
    RecordingMaster,
    agents_world,
    allocation,
    launch_spec,
)
from tests.fakes.batch_world import BatchWorld
from tests.fakes.dispatch_backend import DispatchBackend, Site
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run
from windlass.base.errors import NotFound, Unsatisfiable
from windlass.base.ids import Ids


class Cluster(Protocol):
    """A resource manager with 8 slots in a pool called `default`, at most 4 of them in one place."""

    @property
    def rm(self) -> ResourceManager: ...

    @property
    def master(self) -> RecordingMaster: ...

    async def settle(self) -> None:
        """Let everything happen that happens by itself."""
        ...

    def exit(self, granted: Granted, rank: int, code: int) -> None:
        """The process of one container ends."""
        ...

    async def restart(self, *records: RestoreRecord) -> None:
        """The master is killed, and a new one restores `records`."""
        ...


@dataclass
class AgentsCluster:
    world: AgentsWorld
    routed: bool

    @property
    def rm(self) -> ResourceManager:
        return Router([self.world.backend]) if self.routed else self.world.backend

    @property
    def master(self) -> RecordingMaster:
        return self.world.master

    async def settle(self) -> None:
        await self.world.settle(60)

    def exit(self, granted: Granted, rank: int, code: int) -> None:
        container = granted.containers[rank]
        self.world.agents[container.agent_id].exit(container.container_id, code)

    async def restart(self, *records: RestoreRecord) -> None:
        await self.world.restart(records)


@dataclass
class DispatchCluster:
    """The toy batch system; routed: beside a pool of agents."""

    world: AgentsWorld
    routed: bool
    ids: Ids = field(default_factory=lambda: Ids.seeded(2))
    site: Site = field(default_factory=Site)
    _backend: DispatchBackend | None = None
    _running: asyncio.Task[None] | None = None

    @property
    def rm(self) -> ResourceManager:
        assert self._backend is not None
        return Router([self.world.backend, self._backend]) if self.routed else self._backend

    @property
    def master(self) -> RecordingMaster:
        return self.world.master

    async def settle(self) -> None:
        await self.world.settle(60)

    def exit(self, granted: Granted, rank: int, code: int) -> None:
        self.site.exit(granted.containers[rank].container_id, code)

    async def restart(self, *records: RestoreRecord) -> None:
        if self._running is not None:
            self._running.cancel()
        self._backend = DispatchBackend(self.site, self.master, self.ids)
        await self._backend.restore(records)
        self._running = self.world.tasks.create_task(self._backend.run())


@dataclass
class OtherPoolCluster(AgentsCluster):
    """Pools of agents behind the router: `default` has none, so that all work falls back to the pool that has."""

    @property
    def rm(self) -> ResourceManager:
        return self.world.router

    async def restart(self, *records: RestoreRecord) -> None:
        """As the owner of an allocation makes its record: what has slots is where its grant was."""
        await self.world.restart([_granted_elsewhere(r) if r.containers else r for r in records])


def _granted_elsewhere(record: RestoreRecord) -> RestoreRecord:
    away = FellBack(home=record.request.pool)
    return replace(record, request=replace(record.request, pool="other", fell_back=away))


OpenCluster = Callable[[], AbstractAsyncContextManager[Cluster]]


def _agents(*, routed: bool) -> OpenCluster:
    @asynccontextmanager
    async def open_cluster() -> AsyncIterator[Cluster]:
        async with agents_world() as world:
            for agent_id in ("a1", "a2"):
                await world.add_agent(agent_id, slots=4)
            yield AgentsCluster(world, routed)

    return open_cluster


@asynccontextmanager
async def _other_pool() -> AsyncIterator[Cluster]:
    pools = (resolved_pool("default"), resolved_pool("other"))
    rule = FallBackRule(pools=("other",), after_s=0)
    async with agents_world(*pools, fall_back={"default": rule}) as world:
        for agent_id in ("a1", "a2"):
            await world.add_agent(agent_id, slots=4, pool="other")
        yield OtherPoolCluster(world, routed=True)


def _dispatch(*, routed: bool) -> OpenCluster:
    @asynccontextmanager
    async def open_cluster() -> AsyncIterator[Cluster]:
        async with agents_world(resolved_pool("agents")) as world:
            cluster = DispatchCluster(world, routed)
            await cluster.restart()
            yield cluster

    return open_cluster


@dataclass
class BatchCluster(AgentsCluster):
    """A pool of jobs of a batch system of two nodes with four GPUs each; routed: beside agents and the toy."""

    batch: BatchWorld

    @property
    def rm(self) -> ResourceManager:
        if not self.routed:
            return self.world.backend
        toy = DispatchBackend(Site(), self.master, Ids.seeded(2), pool="toy")
        return Router([*self.world.backends, toy])

    async def restart(self, *records: RestoreRecord) -> None:
        await self.batch.restart(*records)


def _batch_jobs(*, routed: bool) -> OpenCluster:
    @asynccontextmanager
    async def open_cluster() -> AsyncIterator[Cluster]:
        pools = [resolved_pool("agents")] if routed else []
        with TemporaryDirectory() as folder:
            async with agents_world(*pools, starts=False) as world:
                batch = BatchWorld(world, Path(folder) / "jobs")
                await batch.start()
                await world.settle(5)
                yield BatchCluster(world, routed, batch)

    return open_cluster


IMPLEMENTATIONS: dict[str, OpenCluster] = {
    "batch jobs": _batch_jobs(routed=False),
    "batch jobs behind the router, beside agents and the toy": _batch_jobs(routed=True),
    "agents": _agents(routed=False),
    "agents behind the router": _agents(routed=True),
    "agents of the pool that the router falls back to": _other_pool,
    "dispatch": _dispatch(routed=False),
    "dispatch behind the router, beside agents": _dispatch(routed=True),
}


Scenario = Callable[[Cluster], Coroutine[Any, Any, None]]


@pytest.fixture(params=list(IMPLEMENTATIONS.values()), ids=list(IMPLEMENTATIONS))
def play(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Run a scenario on a fresh cluster, on virtual time."""

    def play_on_fresh_cluster(scenario: Scenario) -> None:
        async def main() -> None:
            async with request.param() as cluster:
                await scenario(cluster)

        run(main(), limit_s=24 * 3600)

    return play_on_fresh_cluster


Play = Callable[[Scenario], None]
ID = "task-1.1"


async def start_one(cluster: Cluster, slots: int = 1, number: int = 1) -> Granted:
    request = allocation(number, slots=slots)
    await cluster.rm.request(request)
    granted = await cluster.master.granted(request.allocation_id)
    await cluster.rm.start(request.allocation_id, launch_spec(request.allocation_id))
    await cluster.master.running(request.allocation_id, len(granted.containers))
    return granted


def test_a_grant_then_a_start_then_an_exit(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        granted = await start_one(cluster, slots=2)
        assert cluster.rm.explain(ID) is None
        cluster.exit(granted, 0, 3)
        (ended,) = await cluster.master.ended(ID)
        assert ended.container_id == granted.containers[0].container_id
        assert ended.exit is not None
        assert (ended.exit.exit_code, ended.exit.failure) == (3, None)
        phases = cluster.master.phases(ID)
        order = list(ContainerPhase)
        assert phases == sorted(phases, key=order.index)
        assert phases[-1] is ContainerPhase.TERMINATED

    play(scenario)


def test_a_grant_alone_starts_nothing(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.rm.request(allocation(1))
        await cluster.master.granted(ID)
        await cluster.settle()
        assert cluster.master.phases(ID) == []

    play(scenario)


def test_a_gang_gets_all_its_slots_and_ranks_from_zero(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        granted = await start_one(cluster, slots=8)
        assert [c.rank for c in granted.containers] == list(range(len(granted.containers)))
        assert sum(len(c.slot_ids) for c in granted.containers) == 8
        assert len({c.container_id for c in granted.containers}) == len(granted.containers)

    play(scenario)


def test_slots_are_given_once_until_their_container_ended(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await start_one(cluster, slots=8)
        await cluster.rm.request(allocation(2, slots=8))
        await cluster.settle()
        assert cluster.master.grant_of("task-2.1") is None
        assert cluster.rm.explain("task-2.1") is not None
        for container in first.containers:
            cluster.exit(first, container.rank, 0)
        await cluster.master.granted("task-2.1")

    play(scenario)


def test_every_call_may_be_repeated(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        rm = cluster.rm
        await rm.request(allocation(1))
        await rm.request(allocation(1))
        await cluster.master.granted(ID)
        await rm.request(allocation(1))
        for _ in range(2):
            await rm.start(ID, launch_spec(ID))
        await cluster.master.running(ID)
        await rm.start(ID, launch_spec(ID))
        for _ in range(2):
            await rm.release(ID, "paused", None)
        for _ in range(2):
            await rm.kill(ID)
        await cluster.master.ended(ID)
        await rm.kill(ID)
        await rm.release(ID, "paused", None)
        await cluster.settle()
        granted = [e for e in cluster.master.of(ID) if isinstance(e, Granted)]
        assert len(granted) == 1
        assert cluster.master.phases(ID).count(ContainerPhase.RUNNING) == 1
        assert len(cluster.master.exits(ID)) == 1

    play(scenario)


def test_withdraw_wins_before_the_grant_only(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start_one(cluster, slots=8)
        await cluster.rm.request(allocation(2))
        for _ in range(2):
            assert await cluster.rm.withdraw("task-2.1") == Withdrawn(allocation_id="task-2.1")
        assert cluster.rm.explain("task-2.1") is None
        assert await cluster.rm.withdraw(ID) == AlreadyGranted(allocation_id=ID)
        await cluster.rm.kill(ID)
        await cluster.settle()
        assert cluster.master.of("task-2.1") == []

    play(scenario)


def test_kill_before_start_gives_the_reservation_back(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.rm.request(allocation(1, slots=8))
        await cluster.master.granted(ID)
        await cluster.settle()
        await cluster.rm.kill(ID)
        await start_one(cluster, slots=8, number=2)
        assert await cluster.master.lost(ID)
        assert cluster.master.exits(ID) == []

    play(scenario)


def test_kill_while_waiting_forgets_the_request(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await start_one(cluster, slots=8)
        await cluster.rm.request(allocation(2))
        await cluster.rm.kill("task-2.1")
        for container in first.containers:
            cluster.exit(first, container.rank, 0)
        await cluster.settle()
        assert cluster.master.of("task-2.1") == []

    play(scenario)


def test_kill_ends_every_container(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        granted = await start_one(cluster, slots=8)
        await cluster.rm.kill(ID)
        exits = await cluster.master.ended(ID, len(granted.containers))
        assert {e.exit.exit_code for e in exits if e.exit} == {137}

    play(scenario)


def test_starting_what_is_not_reserved_is_answered_with_lost(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.rm.start(ID, launch_spec(ID))
        assert await cluster.master.lost(ID)

    play(scenario)


def test_an_event_is_repeated_until_the_master_has_taken_it(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.master.failures = 3
        granted = await start_one(cluster)
        cluster.master.failures = 3
        cluster.exit(granted, 0, 0)
        await cluster.master.ended(ID)

    play(scenario)


def test_what_waits_has_a_reason(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        await start_one(cluster, slots=8)
        await cluster.rm.request(allocation(2))
        reason = cluster.rm.explain("task-2.1")
        assert reason is not None
        await cluster.settle()
        reason = cluster.rm.explain("task-2.1")
        assert reason is not None
        assert reason.text

    play(scenario)


def test_check_refuses_what_never_fits(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.rm.check(allocation(1, slots=8))
        with pytest.raises(Unsatisfiable, match=r"Requested 100 slots; .*is 8 .*fits is 8$"):
            cluster.rm.check(allocation(1, slots=100))

    play(scenario)


def test_an_unknown_pool_is_not_found(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(NotFound, match="resource pool 'nowhere' not found"):
            cluster.rm.check(allocation(1, pool="nowhere"))

    play(scenario)


def test_a_new_master_takes_over_what_runs(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        granted = await start_one(cluster, slots=8)
        request = allocation(1, slots=8)
        await cluster.restart(
            RestoreRecord(request=request, containers=granted.containers, started=True),
            RestoreRecord(request=allocation(2, slots=8)),
        )
        await cluster.settle()
        assert cluster.master.exits(ID) == []
        assert cluster.master.losses(ID) == []
        assert cluster.rm.explain("task-2.1") is not None
        for container in granted.containers:
            cluster.exit(granted, container.rank, 0)
        await cluster.master.ended(ID, len(granted.containers))
        await cluster.master.granted("task-2.1")

    play(scenario)


def test_a_reservation_survives_the_master_and_is_started_later(play: Play) -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.rm.request(allocation(1, slots=2))
        granted = await cluster.master.granted(ID)
        record = RestoreRecord(request=allocation(1, slots=2), containers=granted.containers)
        await cluster.restart(record)
        await cluster.settle()
        await cluster.rm.start(ID, launch_spec(ID))
        await cluster.master.running(ID)
        cluster.exit(granted, 0, 0)
        await cluster.master.ended(ID)

    play(scenario)


BACKENDS = ["agents", "dispatch"]


@pytest.mark.parametrize("name", BACKENDS)
def test_prospects_are_what_would_be_granted_and_change_nothing(name: str) -> None:
    """What the router asks before it moves a request to a pool."""

    async def main() -> None:
        async with IMPLEMENTATIONS[name]() as cluster:
            backend = cast("PoolBackend", cluster.rm)
            requests = [allocation(1, slots=4), allocation(2, slots=8), allocation(3, slots=4)]
            told = await backend.prospects("default", requests)
            assert told == {"task-1.1": Prospect.START, "task-3.1": Prospect.START}
            await cluster.settle()
            assert not any(backend.knows(request.allocation_id) for request in requests)
            await start_one(cluster, slots=4)
            await start_one(cluster, slots=4, number=3)
            assert await backend.prospects("default", [allocation(4)]) == {}
            with pytest.raises(NotFound):
                await backend.prospects("unknown", [])

    run(main())


@pytest.mark.parametrize("name", BACKENDS)
def test_a_grant_says_where_it_is_if_that_is_not_its_own_pool(name: str) -> None:
    async def main() -> None:
        async with IMPLEMENTATIONS[name]() as cluster:
            away = FellBack(home="small", why="over budget")
            await cluster.rm.request(replace(allocation(1), fell_back=away))
            grant = await cluster.master.granted(ID)
            assert (grant.pool, grant.why) == ("default", "over budget")
            assert (await start_one(cluster, number=2)).pool is None

    run(main())
