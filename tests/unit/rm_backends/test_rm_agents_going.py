"""Agents whose machine goes at a known time, and what they run until then."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from agent_bootstrap.protocol import Leaving, Stay
from master.core.deadlines import Cause, Deadline
from master.core.scheduler import decide as real_decide
from master.core.scheduler.end_times import SUCCESSOR_S
from master.core.scheduler.types import LEAVE_S
from provisioner.types import Gang, Notice
from rm_backends.base import ReleaseAsked, RestoreRecord
from tests.fakes.actors import ADMIN
from tests.fakes.agents_world import (
    AgentsWorld,
    allocation,
    play,
    sent_to,
)
from tests.fakes.pools import EMBEDDED, resolved_pool

ID = "task-1.1"


GOES = datetime(2026, 1, 1, 12, tzinfo=UTC)


SPOT = Leaving(at=GOES, reason="spot notice", taken_back=True)


def going(at: datetime, why: str, cause: Cause = Cause.EMPTIED) -> Deadline:
    return Deadline(at=at.timestamp(), cause=cause, reason=why)


def asked(world: AgentsWorld, allocation_id: str) -> list[ReleaseAsked]:
    return [e for e in world.master.of(allocation_id) if isinstance(e, ReleaseAsked)]


def test_a_machine_that_goes_asks_its_work_to_leave_by_then_and_gets_no_more() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        agent.announce(SPOT)
        await world.master.until(lambda: bool(asked(world, ID)))
        (event,) = asked(world, ID)
        assert event.deadline == GOES
        assert event.reason == "agent a1 goes at 2026-01-01 12:00:00 UTC: spot notice"
        await world.backend.request(allocation(2))
        await world.settle(60)
        assert world.master.grant_of("task-2.1") is None
        assert world.backend.observer.agent("a1").notes == (
            "goes at 2026-01-01T12:00:00+00:00: spot notice",
        )
        assert world.backend.observer.agent("a1").leaves_at == GOES
        await world.add_agent("a2")
        await world.master.granted("task-2.1")
        assert asked(world, "task-2.1") == []

    play(scenario)


def test_it_is_taken_back_by_the_agent_or_an_administrator_unless_a_provider_said_it() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        for by in ("agent", "enable", "away"):
            agent.announce(SPOT)
            await world.settle(60)
            assert world.backend.observer.agent("a1").leaves_at == GOES, by
            if by == "agent":
                agent.stay()
            elif by == "enable":
                await world.backend.operator.enable_agent("a1", by=ADMIN)
                assert world.backend.observer.agent("a1").leaves_at is None
                await agent.until(lambda: bool(sent_to(agent, Stay)))
                agent.leaving = None
            else:
                agent.leaving = None
                await agent.drop()
            await world.settle(60)
            assert world.backend.observer.agent("a1").leaves_at is None, by
        await world.run_allocation(allocation(1))
        world.nodes.leave("a1", going(GOES, "spot notice"))
        await world.backend.operator.enable_agent("a1", by=ADMIN)
        agent.stay()
        await world.settle(60)
        assert world.backend.observer.agent("a1").leaves_at == GOES

    play(scenario)


def test_one_that_goes_now_gives_its_work_the_usual_time_and_gets_no_more() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        await world.run_allocation(replace(allocation(2), preemptible=False))
        agent.announce(Leaving(at=GOES, reason="maintenance", waits=True))
        await world.settle(60)
        await agent.drop()
        await world.settle(60)
        (trial,), (command,) = asked(world, ID), asked(world, "task-2.1")
        assert trial.deadline is None, "its preemption_timeout"
        assert trial.reason == "agent a1 goes now: maintenance"
        assert command.deadline == GOES, "it is told, not killed"
        await world.backend.request(allocation(3))
        await world.settle(60)
        assert world.master.grant_of("task-3.1") is None
        assert world.backend.observer.agent("a1").notes == ("goes now: maintenance",)
        agent.announce(Leaving(at=GOES + timedelta(hours=1), reason="spot notice"))
        await world.settle(60)
        assert asked(world, ID)[-1].deadline == GOES + timedelta(hours=1)

    play(scenario)


def test_a_gang_with_one_agent_that_goes_is_asked_and_only_an_earlier_time_is_told_again() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.add_agent("a2")
        await world.run_allocation(allocation(1, slots=8))
        agent.announce(SPOT)
        await agent.drop()
        await world.settle(60)
        agent.announce(Leaving(at=GOES + timedelta(hours=1), reason="later"))
        agent.announce(Leaving(at=GOES - timedelta(hours=1), reason="sooner"))
        await world.settle(60)
        assert [e.deadline for e in asked(world, ID)] == [GOES, GOES - timedelta(hours=1)]

    play(scenario)


def test_a_new_master_hears_again_that_the_machine_goes() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1))
        agent.announce(SPOT)
        await world.settle(60)
        before = len(asked(world, ID))
        record = RestoreRecord(request=allocation(1), containers=grant.containers, started=True)
        await world.restart([record])
        await world.master.until(lambda: len(asked(world, ID)) > before)
        await agent.lose_memory(boot_id="boot-2")
        agent.leaving = None
        await world.backend.request(allocation(2))
        await world.master.granted("task-2.1")

    play(scenario)


def test_a_provider_may_say_so_before_the_agent_has_connected() -> None:
    async def scenario(world: AgentsWorld) -> None:
        world.nodes.leave("i-1", going(GOES, "maintenance"))
        await world.add_agent("i-1", instance_id="i-1")
        await world.backend.request(allocation(1))
        await world.settle(60)
        assert world.master.grant_of(ID) is None
        assert "maintenance" in world.backend.observer.agent("i-1").notes[0]
        (demand,) = world.nodes.demand()
        assert not demand.nodes[0].schedulable

    play(scenario, resolved_pool("default", EMBEDDED))


def test_an_agent_that_lost_its_connection_drains_and_a_static_one_then_leaves_the_list() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.add_agent("a2")
        await agent.unplug()
        await world.settle(20)
        (seen, other) = world.backend.observer.agents()
        assert (seen.id, seen.draining, seen.connected) == ("a1", True, False)
        assert not other.draining
        await world.settle(10)
        assert [view.id for view in world.backend.observer.agents()] == ["a2"]
        assert world.backend.observer.agent("a1").id == "a1", (
            "an operator may still enable or forget it"
        )
        agent.plug_in()
        await agent.until(lambda: agent.connected)
        assert [view.draining for view in world.backend.observer.agents()] == [False, False]

    play(scenario)


def test_work_that_waits_beside_an_agent_that_leaves_is_told_so() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        at = world.clock.now() + timedelta(minutes=10)
        agent.announce(Leaving(at=at, reason="new disks"))
        await world.backend.request(allocation(2))
        await world.settle(60)
        reason = world.backend.explain("task-2.1")
        assert reason is not None
        assert reason.text == (
            "no agents in service in resource pool 'default' can hold 1 slot "
            f"(a1 leaves at {at:%Y-%m-%d %H:%M:%S} UTC and gets no more work): "
            "it starts when other agents connect or are enabled"
        )

    play(scenario)


def test_work_is_asked_to_leave_before_its_agent_ends() -> None:
    async def scenario(world: AgentsWorld) -> None:
        ends = world.clock.now() + timedelta(hours=1)
        await world.add_agent("a1", ends_at=ends)
        await world.run_allocation(allocation(1))
        assert world.backend.observer.agent("a1").notes == (
            f"ends at {ends.isoformat(timespec='seconds')}",
        )
        await world.settle(3600 - LEAVE_S - 60)
        assert asked(world, ID) == []
        await world.settle(120)
        (event,) = asked(world, ID)
        assert event.deadline == ends
        assert event.reason == f"agent a1 ends at {ends:%Y-%m-%d %H:%M:%S} UTC"
        await world.backend.request(allocation(2))
        await world.settle(60)
        assert world.master.grant_of("task-2.1") is None
        reason = world.backend.explain("task-2.1")
        assert reason is not None
        assert "1 agent ends too soon for it (needs 7 min)" in reason.text

    play(scenario, resolved_pool("default", EMBEDDED), decide=real_decide)


def test_another_machine_is_wanted_before_work_must_leave() -> None:
    """One that lasts; and no more once that work has left, or is over."""

    def wanted(world: AgentsWorld) -> list[Gang]:
        (demand,) = world.nodes.demand()
        return list(demand.gangs)

    async def scenario(world: AgentsWorld) -> None:
        ends = world.clock.now() + timedelta(hours=1)
        await world.add_agent("a1", ends_at=ends)
        await world.run_allocation(allocation(1, slots=2))
        await world.settle(3600 - LEAVE_S - SUCCESSOR_S - 60)
        assert wanted(world) == []
        await world.settle(120)
        (gang,) = wanted(world)
        assert (gang.request_id, gang.slots) == (ID, 2)
        left_s = (ends - world.clock.now()).total_seconds()
        assert gang.least_s > left_s, "not on the one that ends"
        assert asked(world, ID) == []
        await world.backend.kill(ID)
        await world.settle(60)
        assert wanted(world) == []

    play(scenario, resolved_pool("default", EMBEDDED), decide=real_decide)


def test_what_runs_on_a_machine_that_is_taken_back_is_demand_at_once_whoever_says_so() -> None:
    """The agent by its metadata service, or the provider. What the planner moves has its place already."""

    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", instance_id="a1")
        await world.run_allocation(allocation(1, slots=2))

        async def shown() -> tuple[list[str], list[Notice | None]]:
            await world.settle(60)
            (demand,) = world.nodes.demand()
            return [g.request_id for g in demand.gangs], [node.notice for node in demand.nodes]

        notice = Notice(at=GOES.timestamp(), why="spot notice")
        later = GOES + timedelta(hours=1)
        world.nodes.leave("a1", going(later, "packing"))
        assert await shown() == ([], [None])
        agent.announce(Leaving(at=GOES + timedelta(minutes=1), reason="new disks"))
        assert await shown() == ([ID], [None]), "an operator drains it: no news of the provider"
        agent.announce(SPOT)
        assert await shown() == ([ID], [notice])
        await world.add_agent("a2", instance_id="a2")
        world.nodes.leave("a2", going(GOES, "spot notice", Cause.TAKEN_BACK))
        assert await shown() == ([ID], [notice, notice])
        await world.backend.kill(ID)
        assert await shown() == ([], [notice, notice])

    play(scenario, resolved_pool("default", EMBEDDED), decide=real_decide)


def test_one_that_only_tells_how_tasks_ended_gets_no_work_and_none_is_asked_to_leave() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        await world.run_allocation(allocation(1))
        agent.takes_work = False
        await agent.drop()
        await agent.until(lambda: agent.connected)
        await world.backend.request(allocation(2))
        await world.settle(60)
        assert world.master.grant_of("task-2.1") is None
        assert asked(world, ID) == []

    play(scenario)
