"""What the scheduler of a pool sees of jobs and runs: places in the queue, run times, checkpoints, expected ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from master.core.scheduler import decide
from master.core.scheduler.types import (
    Decision,
    PoolState,
    Request,
    Running,
    SchedulerSettings,
    SchedulerType,
)
from provisioner.sections.pools import ResolvedPool
from rm_backends.base import AllocationHint, AllocationRequest, ContainerPhase, RestoreRecord
from tests.fakes.agents_world import SUBMITTED, AgentsWorld, agents_world, allocation
from tests.fakes.first_fit import first_fit
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run
from windlass.base.errors import NotFound

Scenario = Callable[["Watched", AgentsWorld], Awaitable[None]]


class Watched:
    """A scheduler that remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[PoolState] = []

    def __call__(self, state: PoolState) -> Decision:
        self.seen.append(state)
        return first_fit(state)

    async def state(self, world: AgentsWorld) -> PoolState:
        """What it sees once all that was said has arrived. A new request makes it look; the pool has 2 slots."""
        await world.backend.request(allocation(900 + len(self.seen), slots=2, job="probe"))
        await world.settle()
        return self.seen[-1]

    async def running(self, world: AgentsWorld, allocation_id: str) -> Running:
        return next(r for r in (await self.state(world)).running if r.request.id == allocation_id)

    async def waiting(self, world: AgentsWorld, allocation_id: str) -> Request:
        return next(r for r in (await self.state(world)).waiting if r.id == allocation_id)


def play(scenario: Scenario, *pools: ResolvedPool) -> None:
    async def main() -> None:
        watched = Watched()
        async with agents_world(*pools, decide=watched) as world:
            await scenario(watched, world)

    run(main(), limit_s=24 * 3600)


def learned(request: AllocationRequest, run_time_s: float | None) -> AllocationRequest:
    return replace(request, job=replace(request.job, run_time_s=run_time_s))


def test_the_place_of_a_job_reaches_the_scheduler_with_requests_and_changes() -> None:
    place = Decimal("1767225600.00000000000000000000001")

    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        request = allocation(1, slots=4)
        job = request.job.job_id
        await world.backend.request(replace(request, job=replace(request.job, position=place)))
        assert (await watched.state(world)).jobs[job].position == place
        await world.backend.update_job(replace(request.job, position=place + 1))
        assert (await watched.state(world)).jobs[job].position == place + 1
        await world.backend.update_job(request.job)
        assert (await watched.state(world)).jobs[job].position is None

    play(scenario)


def test_a_change_is_looked_at_at_once() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        request = allocation(1, slots=4)
        await world.backend.request(request)
        await world.settle()
        looks = len(watched.seen)
        await world.backend.update_job(replace(request.job, priority=1))
        await world.settle(0.1)
        assert len(watched.seen) == looks + 1
        assert watched.seen[-1].jobs[request.job.job_id].priority == 1

    play(scenario)


def test_a_job_that_has_nothing_in_a_pool_is_not_made_known_there() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.backend.update_job(allocation(1).job)
        assert set((await watched.state(world)).jobs) == {"probe"}

    play(scenario)


def test_run_times_of_a_job_reach_its_requests_and_runs() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.add_agent("a1")
        first, second = allocation(1, job="j"), allocation(2, slots=4, job="j")
        await world.run_allocation(first)
        await world.backend.request(second)
        assert (await watched.waiting(world, "task-2.1")).expected_run_s is None
        assert (await watched.running(world, "task-1.1")).expected_end is None
        await world.backend.update_job(learned(first, 60.0).job)
        assert (await watched.waiting(world, "task-2.1")).expected_run_s == 60.0
        seen = await watched.running(world, "task-1.1")
        assert seen.expected_end == seen.started + 60.0
        assert seen.request.expected_run_s == 60.0
        await world.backend.update_job(learned(first, 90.0).job)
        seen = await watched.running(world, "task-1.1")
        assert seen.expected_end == seen.started + 90.0

    play(scenario)


def test_an_order_without_a_run_time_leaves_what_was_learned() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.backend.request(learned(allocation(1, slots=4, job="j"), 60.0))
        await world.backend.request(allocation(2, slots=4, job="j"))
        assert (await watched.waiting(world, "task-1.1")).expected_run_s == 60.0
        assert (await watched.waiting(world, "task-2.1")).expected_run_s == 60.0

    play(scenario)


def test_notes_tell_of_checkpoints_and_ends() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.add_agent("a1")
        await world.run_allocation(learned(allocation(1), 60.0))
        saved, end = SUBMITTED + timedelta(seconds=40), SUBMITTED + timedelta(seconds=500)
        world.backend.hint(AllocationHint(allocation_id="task-1.1", last_checkpoint=saved))
        seen = await watched.running(world, "task-1.1")
        assert seen.last_checkpoint == saved.timestamp()
        assert seen.expected_end == seen.started + 60.0, (
            "its job's run time counts until it is told"
        )
        world.backend.hint(AllocationHint(allocation_id="task-1.1", expected_end=end))
        seen = await watched.running(world, "task-1.1")
        assert (seen.last_checkpoint, seen.expected_end) == (saved.timestamp(), end.timestamp())
        await world.backend.update_job(learned(allocation(1), 90.0).job)
        assert (await watched.running(world, "task-1.1")).expected_end == end.timestamp()

    play(scenario)


@pytest.mark.parametrize("whose", ["task-1.1", "task-9.9"])
def test_a_note_on_what_does_not_run_says_nothing(whose: str) -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.backend.request(allocation(1, slots=1))
        await world.settle()
        world.backend.hint(AllocationHint(allocation_id=whose, last_checkpoint=SUBMITTED))
        await world.add_agent("a1")
        await world.master.granted("task-1.1")
        assert (await watched.running(world, "task-1.1")).last_checkpoint is None

    play(scenario)


def test_a_note_alone_makes_nobody_look() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        await world.settle()
        looks = len(watched.seen)
        world.backend.hint(AllocationHint(allocation_id="task-1.1", last_checkpoint=SUBMITTED))
        await world.settle()
        assert len(watched.seen) == looks

    play(scenario)


def test_restored_runs_have_the_place_and_run_time_of_their_record() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.add_agent("a1")
        request = learned(allocation(1), 60.0)
        request = replace(request, job=replace(request.job, position=Decimal(7)))
        grant = await world.run_allocation(request)
        record = RestoreRecord(request=request, containers=grant.containers, started=True)
        await world.restart([record])
        end = SUBMITTED + timedelta(seconds=500)
        assert (await watched.running(world, "task-1.1")).request.expected_run_s == 60.0
        world.backend.hint(AllocationHint(allocation_id="task-1.1", expected_end=end))
        seen = await watched.running(world, "task-1.1")
        assert seen.expected_end == end.timestamp()
        assert watched.seen[-1].jobs["job-1"].position == Decimal(7)
        assert ContainerPhase.TERMINATED not in world.master.phases("task-1.1")

    play(scenario)


def test_a_job_with_fewer_max_slots_than_it_needs_waits_and_says_so() -> None:
    async def main() -> None:
        async with agents_world(decide=decide) as world:
            request = allocation(1, slots=2)
            await world.backend.request(request)
            await world.backend.update_job(replace(request.job, max_slots=1))
            await world.add_agent("a1")
            await world.settle()
            reason = world.backend.explain("task-1.1")
            assert reason is not None
            assert "the job's max_slots is 1" in reason.text
            await world.backend.update_job(replace(request.job, max_slots=2))
            await world.master.granted("task-1.1")

    run(main(), limit_s=24 * 3600)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fair_share", ["task-1.1", "task-3.1", "task-2.1", "task-4.1"]),
        ("priority", ["task-4.1", "task-2.1", "task-1.1", "task-3.1"]),
    ],
)
def test_the_queue_is_in_the_order_of_the_policy(
    policy: SchedulerType, expected: list[str]
) -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        first = Decimal(SUBMITTED.timestamp()) - 5
        for request, priority, position in (
            (allocation(1, slots=4, job="old"), None, None),
            (allocation(2, slots=4, job="moved"), 42, first),
            (allocation(3, slots=4, job="old"), None, None),
            (allocation(4, slots=4, job="urgent"), 1, None),
        ):
            submitted = SUBMITTED if request.job.job_id == "old" else request.job.submitted
            job = replace(request.job, submitted=submitted, priority=priority, position=position)
            await world.backend.request(replace(request, job=job))
        await world.settle()
        assert [
            entry.allocation_id for entry in world.backend.observer.queue("default")
        ] == expected
        urgent = [
            entry.allocation_id for entry in world.backend.observer.queue("default", "urgent")
        ]
        assert urgent == ["task-4.1"]
        assert world.backend.observer.queue("default", "nobody") == ()

    play(scenario, resolved_pool("default", scheduler=SchedulerSettings(type=policy)))


def test_who_is_in_a_queue_is_told_without_what_they_want() -> None:
    async def scenario(watched: Watched, world: AgentsWorld) -> None:
        await world.add_agent("a", slots=4)
        for number, job in enumerate(("both", "both", "waits")):
            await world.backend.request(allocation(number, slots=4, job=job))
        await world.settle()
        whole = world.backend.observer.queue("default")
        assert {(one.job, one.holds) for one in world.backend.observer.jobs_in("default")} == {
            (entry.job, entry.job.id == "both") for entry in whole
        }
        assert world.backend.observer.scheduler("default") == resolved_pool("default").scheduler
        with pytest.raises(NotFound):
            world.backend.observer.jobs_in("nowhere")

    play(scenario)
