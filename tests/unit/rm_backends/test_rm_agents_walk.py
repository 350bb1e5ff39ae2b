"""Long random walks: agents and masters fail in every order, and still nothing is lost, doubled or stuck."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from master.core.scheduler import decide
from master.core.scheduler.types import Decision, PoolState
from rm_backends.base import (
    AllocationRequest,
    Container,
    ContainerPhase,
    Granted,
    Lost,
    ReleaseAsked,
    ResourceChanged,
    RestoreRecord,
    RmEvent,
)
from rm_backends.views import jobs_of
from tests.fakes.actors import ADMIN
from tests.fakes.agents_world import (
    AgentsWorld,
    RecordingMaster,
    agents_world,
    allocation,
    launch_spec,
)
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.virtual_time import run

STEPS = 120
AGENTS = {"a1": 4, "a2": 4, "a3": 2}


@dataclass
class Run:
    """What a master's store would know of one allocation."""

    request: AllocationRequest
    containers: tuple[Container, ...] = ()
    started: bool = False
    ended: set[str] = field(default_factory=set)
    killed: bool = False
    over: bool = False

    @property
    def record(self) -> RestoreRecord:
        return RestoreRecord(
            request=self.request,
            containers=self.containers,
            started=self.started or self.killed,
            ended_containers=frozenset(self.ended),
        )

    def slots(self) -> set[tuple[str, int]]:
        live = [c for c in self.containers if c.container_id not in self.ended]
        return {(c.agent_id, slot) for c in live for slot in c.slot_ids}


class ModelMaster(RecordingMaster):
    """Commits each event or fails, then does what `master.allocations` does about it."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.runs: dict[str, Run] = {}
        self.failure_rate = 0.15
        self.given_twice: list[str] = []
        self.world: AgentsWorld
        self._rng = rng

    async def handle(self, event: RmEvent) -> None:
        await asyncio.sleep(self._rng.random() * 3)
        if self._rng.random() < self.failure_rate:
            raise OSError("cannot commit")
        self.events.append(event)
        run_ = self.runs[event.allocation_id]
        if run_.over:
            if isinstance(event, Granted):
                await self.world.backend.kill(run_.request.allocation_id)
            return
        match event:
            case Granted(containers=containers):
                run_.containers = containers
                self._check_slots(event.allocation_id)
                await self.start(run_)
            case ResourceChanged(container_id=container_id, phase=phase):
                await self._changed_to(run_, container_id, phase)
            case Lost():
                run_.over = True
                await self.world.backend.kill(run_.request.allocation_id)
            case ReleaseAsked():
                await self.kill(run_)

    async def start(self, run_: Run) -> None:
        allocation_id = run_.request.allocation_id
        await self.world.backend.start(allocation_id, launch_spec(allocation_id))

    async def kill(self, run_: Run) -> None:
        run_.killed = bool(run_.containers)
        await self.world.backend.kill(run_.request.allocation_id)
        if not run_.containers:
            run_.over = True

    async def _changed_to(self, run_: Run, container_id: str, phase: ContainerPhase) -> None:
        run_.started = True
        if phase is ContainerPhase.TERMINATED:
            run_.ended.add(container_id)
            if len(run_.ended) == len(run_.containers):
                run_.over = True
            else:
                await self.kill(run_)

    def _check_slots(self, granted: str) -> None:
        """As the store sees it: a slot is free only once the end of its container is committed."""
        taken: set[tuple[str, int]] = set()
        for run_ in self.runs.values():
            if not run_.over:
                if taken & run_.slots():
                    self.given_twice.append(granted)
                taken |= run_.slots()


@dataclass
class Walk:
    world: AgentsWorld
    master: ModelMaster
    rng: random.Random
    number: int = 0
    shut: dict[tuple[str, int], str | None] = field(default_factory=dict)
    """Slots out of service -> the container that held each when it was taken out."""

    async def step(self) -> None:
        action: Callable[[], object] = self.rng.choice(
            [self.submit] * 6
            + [self.exit_one] * 4
            + [self.kill_one, self.withdraw_one, self.drop, self.lose_memory, self.toggle_service]
            + [self.shut_slot, self.shut_slot, self.open_slot]
            + [self.unplug, self.plug_in, self.plug_in, self.restart, self.stall]
        )
        result = action()
        if asyncio.iscoroutine(result):
            await result
        await self.world.settle(self.rng.choice((0, 0.005, 0.1, 1, 5, 40)))
        backend = self.world.backend
        for waiting in backend.observer.queue("default"):
            if not waiting.placement:
                assert backend.explain(waiting.allocation_id) is not None
        jobs = sorted(backend.observer.jobs_in("default"), key=lambda one: one.job.id)
        assert jobs == sorted(
            jobs_of(backend.observer.queue("default")), key=lambda one: one.job.id
        )
        assert [view.id for view in backend.observer.agents()] == [
            key.id for key in backend.observer.agent_keys()
        ]
        for (agent_id, slot_id), holder in self.shut.items():
            held_by = self.world.backend.operator.slot(agent_id, slot_id).container_id
            assert held_by in (None, holder), "a slot out of service gets nothing new"

    async def submit(self) -> None:
        self.number += 1
        slots = self.rng.choice((0, 1, 1, 2, 4, 8))
        request = allocation(self.number, slots=slots, job=f"j{self.number % 3}")
        self.master.runs[request.allocation_id] = Run(request)
        await self.world.backend.request(request)

    def exit_one(self) -> None:
        agent = self._agent()
        for container_id in list(agent.containers)[:1]:
            agent.exit(container_id, self.rng.choice((0, 1)))

    async def kill_one(self) -> None:
        if (run_ := self._run()) is not None and run_.containers:
            await self.master.kill(run_)

    async def withdraw_one(self) -> None:
        if (run_ := self._run()) is not None and not run_.containers:
            run_.over = True
            await self.world.backend.kill(run_.request.allocation_id)

    async def drop(self) -> None:
        await self._agent().drop()

    async def unplug(self) -> None:
        await self._agent().unplug()

    def plug_in(self) -> None:
        self._agent().plug_in()

    async def lose_memory(self) -> None:
        boot_id = f"boot-{self.rng.random()}" if self.rng.random() < 0.5 else None
        agent = self._agent()
        agent.started.clear()  # what it has not told of may rightly be started once more
        await agent.lose_memory(boot_id=boot_id)

    def stall(self) -> None:
        self.world.channels[-1].stall()

    async def toggle_service(self) -> None:
        agent_id = self._agent().agent_id
        if self.rng.random() < 0.6:
            await self.world.backend.operator.enable_agent(agent_id, by=ADMIN)
        else:
            await self.world.backend.operator.disable_agent(
                agent_id, drain=self.rng.random() < 0.5, by=ADMIN
            )

    async def shut_slot(self) -> None:
        agent_id, slot_id = self._slot()
        drain = self.rng.random() < 0.5
        view = await self.world.backend.operator.disable_slot(
            agent_id, slot_id, drain=drain, by=ADMIN
        )
        assert not view.enabled
        self.shut[agent_id, slot_id] = view.container_id

    async def open_slot(self) -> None:
        agent_id, slot_id = self._slot()
        await self.world.backend.operator.enable_slot(agent_id, slot_id, by=ADMIN)
        self.shut.pop((agent_id, slot_id), None)

    async def restart(self) -> None:
        await self.world.stop_master()
        await self.world.settle(self.rng.choice((0, 3, 60)))
        open_allocations = [run_ for run_ in self.master.runs.values() if not run_.over]
        await self.world.start_master([run_.record for run_ in open_allocations])
        for run_ in open_allocations:
            if run_.killed:
                await self.world.backend.kill(run_.request.allocation_id)
            elif run_.containers and not run_.started:
                await self.master.start(run_)

    async def heal_and_finish(self) -> None:
        """No more faults: everything that was asked for must come to its end."""
        self.master.failure_rate = 0.0
        for agent in self.world.agents.values():
            agent.plug_in()
            await self.world.backend.operator.enable_agent(agent.agent_id, by=ADMIN)
        for agent_id, slot_id in self.shut:
            await self.world.backend.operator.enable_slot(agent_id, slot_id, by=ADMIN)
        await self.world.settle(60)
        for _ in range(self.number):
            for agent in self.world.agents.values():
                for container_id in list(agent.containers):
                    agent.exit(container_id)
            await self.world.settle(20)

    def _agent(self) -> FakeAgent:
        return self.world.agents[self.rng.choice(list(AGENTS))]

    def _slot(self) -> tuple[str, int]:
        agent = self._agent()
        return agent.agent_id, self.rng.randrange(agent.slots)

    def _run(self) -> Run | None:
        candidates = [run_ for run_ in self.master.runs.values() if not run_.over]
        return self.rng.choice(candidates) if candidates else None


def sound(state: PoolState) -> Decision:
    """The real scheduler, on states that add up only."""
    used: dict[str, int] = {}
    for running in state.running:
        for agent_id, slots in running.placement.items():
            used[agent_id] = used.get(agent_id, 0) + slots
            assert running.closing.get(agent_id, 0) <= slots
    for agent in state.agents:
        assert used.get(agent.id, 0) <= agent.slots
    return decide(state)


async def walk(seed: int) -> list[RmEvent]:
    rng = random.Random(seed)
    async with agents_world(decide=sound) as world:
        master = ModelMaster(rng)
        master.world = world
        world.master = master
        await world.restart()
        for agent_id, slots in AGENTS.items():
            await world.add_agent(agent_id, slots=slots, start_s=0.5)
        journey = Walk(world, master, rng)
        for _ in range(STEPS):
            await journey.step()
        await journey.heal_and_finish()

        stuck = [r.request.allocation_id for r in master.runs.values() if not r.over]
        assert stuck == []
        assert master.given_twice == []
        assert world.backend.observer.queue("default") == ()
        for agent in world.agents.values():
            assert agent.containers == {}
            assert len(set(agent.started)) == len(agent.started), "no container starts twice"
            assert world.backend.observer.agent(agent.agent_id).containers == {}
        return master.events


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_everything_ends_and_no_slot_is_given_twice(seed: int) -> None:
    run(walk(seed), limit_s=48 * 3600)


@pytest.mark.slow
def test_a_seed_replays_exactly() -> None:
    first, second = (run(walk(7), limit_s=48 * 3600) for _ in range(2))
    assert first == second
    assert len(first) > 20
