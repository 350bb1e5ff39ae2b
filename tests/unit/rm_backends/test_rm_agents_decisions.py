"""What the pool gives its scheduler, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler import decide as real_decide
from master.core.scheduler.types import Decision, PoolState, Release, Start, Waiting
from provisioner.types import BootingNode, LaunchableNode, PoolAvailability
from rm_backends.agents import pool as pool_module
from rm_backends.base import ReleaseAsked
from rm_backends.views import QueueState
from tests.fakes.agents_world import (
    AgentsWorld,
    allocation,
    play,
)
from tests.fakes.first_fit import first_fit
from tests.fakes.pools import EMBEDDED, resolved_pool
from windlass.base.errors import NotFound, Unsatisfiable

ID = "task-1.1"
CLOUD = resolved_pool("default", EMBEDDED)


def test_the_planner_says_why_a_gang_waits() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.backend.request(allocation(1))
        reason = world.backend.explain(ID)
        assert reason is not None
        await world.settle()
        reason = world.backend.explain(ID)
        assert reason is not None
        assert reason.kind is ReasonKind.NEEDS_CAPACITY
        launching = Reason(kind=ReasonKind.LAUNCHING, text="i-1 boots since 3 s")
        world.nodes.availability(PoolAvailability(pool="default", reasons={ID: launching}))
        assert world.backend.explain(ID) == launching
        assert [entry.reason for entry in world.backend.observer.queue("default")] == [launching]

    play(scenario, CLOUD)


def test_the_scheduler_sees_what_boots_and_what_could_be_launched() -> None:
    states: list[PoolState] = []

    def decide(state: PoolState) -> Decision:
        states.append(state)
        return first_fit(state)

    async def scenario(world: AgentsWorld) -> None:
        await world.backend.request(allocation(1))
        world.nodes.availability(
            PoolAvailability(
                pool="default",
                booting=(
                    BootingNode(instance_id="i-1", slots=4, ready_in_s=60),
                    BootingNode(instance_id="i-2", slots=4, ready_in_s=90),
                ),
                launchable=(LaunchableNode(slots=8, count=2, ready_in_s=200),),
            )
        )
        await world.settle(31)
        booting = [x for x in states[-1].launchable if x.booting]
        assert [round(x.ready_in_s / 10) for x in booting] == [3, 6]
        assert [(x.slots_per_agent, x.count) for x in states[-1].launchable if not x.booting] == [
            (8, 2)
        ]
        await world.add_agent("i-1", instance_id="i-1")
        await world.settle()
        assert [x.booting for x in states[-1].launchable] == [True, False]

    play(scenario, CLOUD, decide=decide)


def test_a_release_is_asked_once_and_counts_as_coming_back() -> None:
    states: list[PoolState] = []

    def decide(state: PoolState) -> Decision:
        states.append(state)
        decision = first_fit(state)
        if not state.waiting:
            return decision
        release = tuple(
            Release(request_id=r.request.id, why="task-2 is due") for r in state.running
        )
        return Decision(start=decision.start, release=release, waiting=decision.waiting)

    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1, slots=4))
        await world.backend.request(allocation(2, slots=4))
        await world.settle(60)
        asked = [e for e in world.master.of(ID) if isinstance(e, ReleaseAsked)]
        assert asked == [ReleaseAsked(allocation_id=ID, reason="task-2 is due")]
        assert [r.releasing for r in states[-1].running] == [True]
        agent.exit(grant.containers[0].container_id)
        await world.master.granted("task-2.1")

    play(scenario, decide=decide)


@pytest.mark.parametrize(
    "placement",
    [{"a1": 3}, {"nowhere": 2}, {"blocked": 2}, {}, {"a1": 2, "a2": 0}, {"full": 2}, {"away": 2}],
)
def test_decisions_that_do_not_hold_are_dropped(placement: dict[str, int]) -> None:
    def decide(state: PoolState) -> Decision:
        if not any(request.id == ID for request in state.waiting):
            return first_fit(state)
        return Decision(start=(Start(request_id=ID, placement=placement),))

    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("full", slots=2)
        await world.run_allocation(allocation(9, slots=2))
        for agent_id in ("a1", "a2", "blocked", "away"):
            await world.add_agent(agent_id)
        await world.agents["away"].unplug()
        await world.backend.request(allocation(1, slots=2, blocked=frozenset({"blocked"})))
        await world.settle(20)
        assert world.master.of(ID) == []
        assert world.backend.explain(ID) is not None

    play(scenario, decide=decide)


def test_a_pilot_on_a_node_that_a_request_must_not_use_stays_free() -> None:
    """A log policy names the node; the agents on it have another name in each job."""
    request = allocation(1, slots=2, blocked=frozenset({"n1"}))

    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("wp-1-0", slots=2, site_node="n1")
        await world.backend.request(request)
        await world.settle(20)
        assert world.master.of(ID) == []
        assert world.backend.explain(ID) is not None
        await world.add_agent("wp-2-0", slots=2, site_node="n2")
        grant = await world.master.granted(ID)
        assert [one.agent_id for one in grant.containers] == ["wp-2-0"]

    play(scenario)


def test_a_failing_scheduler_is_tried_again() -> None:
    calls = 0

    def decide(state: PoolState) -> Decision:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise RuntimeError("bug")
        return first_fit(state)

    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        await world.backend.request(allocation(1))
        await world.master.granted(ID)

    play(scenario, decide=decide)


def test_a_large_pool_is_decided_in_a_thread_and_what_changed_meanwhile_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "INLINE_LIMIT", 3)
    threads: set[str] = set()
    meanwhile: list[Callable[[], object]] = []

    def decide(state: PoolState) -> Decision:
        if len(state.waiting) >= 4:
            threads.add(threading.current_thread().name)
            meanwhile.pop()()
        return first_fit(state)

    async def scenario(world: AgentsWorld) -> None:
        loop = asyncio.get_running_loop()
        await world.add_agent("a1", slots=8)

        def withdraw() -> None:
            world.tasks.create_task(world.backend.kill(ID))

        meanwhile.append(lambda: loop.call_soon_threadsafe(withdraw))
        for number in range(1, 5):
            await world.backend.request(allocation(number))
        await world.settle()
        assert threading.current_thread().name not in threads
        assert meanwhile == []
        assert world.master.of(ID) == []
        assert len(world.master.events) == 3
        assert (
            sum(s.container_id is not None for s in world.backend.observer.agent("a1").slots) == 3
        )

    play(scenario, decide=decide)


def test_zero_slot_tasks_have_places_of_their_own() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", slots=2)
        await world.run_allocation(allocation(1, slots=2))
        await world.run_allocation(allocation(2, slots=0))
        await world.run_allocation(allocation(3, slots=0))
        await world.backend.request(allocation(4, slots=0))
        await world.settle(20)
        assert world.master.grant_of("task-4.1") is None
        (pool,) = world.backend.observer.pools_view()
        assert (pool.slots, pool.slots_used, pool.aux_running, pool.aux_capacity) == (2, 2, 2, 2)
        assert (pool.running, pool.waiting, pool.type) == (3, 1, "static")

    play(scenario, resolved_pool("default", max_aux_containers_per_agent=2))


def test_the_queue_shows_what_holds_and_what_waits() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", slots=2)
        await world.run_allocation(allocation(1))
        await world.backend.request(allocation(2))
        await world.master.granted("task-2.1")
        await world.backend.request(allocation(3))
        await world.settle()
        rows = world.backend.observer.queue("default")
        assert [(r.allocation_id, r.state, dict(r.placement)) for r in rows] == [
            (ID, QueueState.SCHEDULED, {"a1": 1}),
            ("task-2.1", QueueState.SCHEDULED, {"a1": 1}),
            ("task-3.1", QueueState.QUEUED, {}),
        ]
        kinds = [r.reason.kind if r.reason else None for r in rows]
        assert kinds == [None, ReasonKind.STARTING, ReasonKind.NEEDS_CAPACITY]
        with pytest.raises(NotFound):
            world.backend.observer.queue("nowhere")

    play(scenario)


def test_a_changed_job_order_reaches_the_scheduler() -> None:
    states: list[PoolState] = []

    def decide(state: PoolState) -> Decision:
        states.append(state)
        return first_fit(state)

    async def scenario(world: AgentsWorld) -> None:
        request = allocation(1, job="j")
        await world.backend.request(request)
        order = type(request.job)(
            job_id="j", submitted=datetime(2026, 1, 1, tzinfo=UTC), weight=3.0, max_slots=2
        )
        await world.backend.update_job(order)
        await world.settle()
        assert (states[-1].jobs["j"].weight, states[-1].jobs["j"].max_slots) == (3.0, 2)
        await world.backend.withdraw(ID)
        await world.settle()
        assert states[-1].jobs == {}

    play(scenario, decide=decide)


def test_waiting_reasons_of_the_scheduler_come_through() -> None:
    queued = Reason(kind=ReasonKind.QUEUED, text="behind 3 others")

    def decide(state: PoolState) -> Decision:
        waiting: dict[str, Any] = {r.id: Waiting(reason=queued) for r in state.waiting}
        return Decision(waiting=waiting)

    async def scenario(world: AgentsWorld) -> None:
        await world.backend.request(allocation(1))
        await world.settle()
        assert world.backend.explain(ID) == queued

    play(scenario, decide=decide)


def test_a_pool_that_takes_no_zero_slot_tasks_refuses_them_and_says_so_of_those_that_wait() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        with pytest.raises(Unsatisfiable, match="'default' takes no tasks without slots"):
            world.backend.check(allocation(1, slots=0))
        await world.backend.request(allocation(1, slots=0))
        await world.settle()
        reason = world.backend.explain("task-1.1")
        assert reason is not None
        assert reason.kind is ReasonKind.NO_SUCH_AGENT
        assert "max_aux_containers_per_agent is 0" in reason.text

    play(scenario, resolved_pool("default", max_aux_containers_per_agent=0), decide=real_decide)


def test_who_is_waited_for_is_told_by_name() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        for number in range(4):
            await world.run_allocation(allocation(number, job="first"))
        await world.backend.request(allocation(9, slots=2))
        await world.settle()
        reason = world.backend.explain("task-9.1")
        assert reason is not None
        assert reason.text == "Waiting for Task 2, Task 3 to be preempted (2 slots needed)"

    play(scenario, decide=real_decide)
