"""Agents that come, go, come back changed, and what becomes of their work."""

from __future__ import annotations

import pytest

from agent_bootstrap.protocol import KillContainer, StartContainer
from rm_backends.base import ContainerPhase, FailureKind, RestoreRecord
from tests.fakes.agents_world import (
    PEER,
    AgentsWorld,
    allocation,
    launch_spec,
    play,
    sent_to,
)
from tests.fakes.fake_agent import run_for

ID = "task-1.1"


def test_a_container_that_waits_for_its_image_is_pulling() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", pull_s=5.0, start_s=1.0)
        await world.run_allocation(allocation(1))
        told = [ContainerPhase.PULLING, ContainerPhase.STARTING, ContainerPhase.RUNNING]
        assert world.master.phases(ID)[:3] == told

    play(scenario)


def test_an_agent_back_within_the_window_keeps_its_work() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1))
        await agent.unplug()
        await world.settle(24)
        assert not world.backend.observer.agent("a1").connected
        await world.backend.request(allocation(2))
        await world.settle(0.5)
        assert world.master.grant_of("task-2.1") is None, "an absent agent gets no new work"
        agent.plug_in()
        await world.master.granted("task-2.1")
        await world.settle(60)
        assert world.master.losses(ID) == []
        assert agent.started == [grant.containers[0].container_id]
        agent.exit(grant.containers[0].container_id)
        await world.master.ended(ID)

    play(scenario)


def test_what_ended_while_the_agent_was_away_is_reported_and_only_then_forgotten() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        (container,) = (await world.run_allocation(allocation(1))).containers
        await agent.unplug()
        agent.exit(container.container_id, 5)
        world.master.failures = 3
        agent.plug_in()
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.exit_code == 5
        assert container.container_id in agent.containers, "not forgotten before the commit"
        await agent.until(lambda: container.container_id not in agent.containers)
        assert world.backend.observer.agent("a1").containers == {}

    play(scenario)


def test_after_the_window_the_work_is_lost_and_its_siblings_are_killed() -> None:
    async def scenario(world: AgentsWorld) -> None:
        gone = await world.add_agent("a1")
        other = await world.add_agent("a2")
        grant = await world.run_allocation(allocation(1, slots=8))
        await gone.unplug()
        assert "a1 did not come back within 25 s" in await world.master.lost(ID)
        (ended,) = await world.master.ended(ID)
        assert ended.container_id == grant.containers[1].container_id
        await other.until(lambda: not other.containers)
        await world.run_allocation(allocation(2, slots=4))
        assert world.master.losses(ID) == [world.master.losses(ID)[0]]

        gone.plug_in()
        await gone.until(lambda: gone.connected)
        assert gone.containers == {}, "a returning agent ends what is lost"
        await world.run_allocation(allocation(3, slots=4))

    play(scenario)


def test_slots_of_lost_work_stay_taken_until_the_loss_is_committed() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1, slots=4))
        await agent.unplug()
        world.master.open.clear()
        await world.settle(30)
        agent.plug_in()
        await agent.until(lambda: agent.connected)
        await world.backend.request(allocation(2, slots=4))
        await world.settle(30)
        assert world.master.grant_of("task-2.1") is None
        world.master.open.set()
        await world.master.granted("task-2.1")

    play(scenario)


def test_an_agent_that_lost_its_memory_lost_what_it_had_confirmed() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        await agent.lose_memory(boot_id="boot-2")
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.failure is FailureKind.AGENT_FAILED
        await world.run_allocation(allocation(2, slots=4))

    play(scenario)


def test_a_start_that_never_arrived_is_sent_again() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.backend.request(allocation(1))
        (container,) = (await world.master.granted(ID)).containers
        world.channels[-1].stall()
        await world.backend.start(ID, launch_spec(ID))
        await world.settle(5)
        assert agent.started == []
        await agent.drop()
        await world.master.running(ID)
        assert agent.started == [container.container_id]

    play(scenario)


def test_work_granted_before_and_started_while_its_agent_is_away_starts_at_its_return() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.backend.request(allocation(1))
        await world.master.granted(ID)
        await agent.unplug()
        await world.settle(5)
        await world.backend.start(ID, launch_spec(ID))
        agent.plug_in()
        await world.master.running(ID)

    play(scenario)


def test_work_killed_while_its_agent_is_away_is_killed_at_its_return() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        await world.backend.request(allocation(2))
        await world.master.granted("task-2.1")
        await agent.unplug()
        await world.backend.start("task-2.1", launch_spec("task-2.1"))
        await world.backend.kill(ID)
        await world.backend.kill("task-2.1")
        await world.settle(2)
        agent.plug_in()
        (ran,) = await world.master.ended(ID)
        (unstarted,) = await world.master.ended("task-2.1")
        assert ran.exit is not None
        assert ran.exit.exit_code == 137
        assert unstarted.exit is not None
        assert unstarted.exit.failure is FailureKind.ABORTED
        assert len(agent.started) == 1

    play(scenario)


def test_a_silent_connection_is_closed_and_the_agent_gets_its_window() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        agent.reconnect_s = 1000
        world.channels[-1].stall()
        await world.settle(29)
        assert world.backend.observer.agent("a1").connected
        await world.settle(2)
        assert not world.backend.observer.agent("a1").connected
        assert world.master.losses(ID) == []
        await world.settle(25)
        assert world.master.losses(ID) != []

    play(scenario)


def test_a_silent_connection_gives_way_to_a_new_one_of_the_same_agent() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        twin = world.new_agent("a1", reconnect_s=2.0)
        world.channels[-1].stall()
        world.tasks.create_task(twin.run())
        await twin.until(lambda: twin.refused is not None)
        assert twin.refused is not None
        assert twin.refused.retry
        await twin.until(lambda: twin.connected)
        assert world.clock.monotonic() < 15
        assert [view.id for view in world.backend.observer.agents()] == ["a1"]
        await agent.die()

    play(scenario)


@pytest.mark.parametrize("credential", ["", "its own"])
def test_a_rebooted_agent_replaces_its_old_connection_once_that_is_silent(credential: str) -> None:
    async def scenario(world: AgentsWorld) -> None:
        old = await world.add_agent("a1", credential=credential)
        old.reconnect_s = 10_000
        await world.run_allocation(allocation(1))
        new = world.new_agent("a1", credential=credential, boot_id="boot-2")
        world.tasks.create_task(new.run())
        await world.settle(60.0)
        assert new.refused is not None
        assert new.refused.retry
        assert old.connected
        world.channels[0].stall()
        await new.until(lambda: new.connected)
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.failure is FailureKind.AGENT_FAILED
        await old.until(lambda: not old.connected)
        assert new.connected

    play(scenario)


def test_reports_of_a_container_nobody_expects_end_it() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        (container,) = (await world.run_allocation(allocation(1))).containers
        start = sent_to(agent, StartContainer)[0]
        assert isinstance(start, StartContainer)
        stray = start.spec.model_copy(
            update={"container_id": "stray", "allocation_id": "old.7", "slot_ids": (3,)}
        )
        agent._start(stray)
        await agent.until(lambda: "stray" not in agent.containers)
        assert {m.container_id for m in sent_to(agent, KillContainer)} == {"stray"}  # type: ignore[attr-defined]
        assert container.container_id in agent.containers
        assert world.master.of("old.7") == []

    play(scenario)


async def _restart_with(world: AgentsWorld, *, started: bool) -> None:
    request = allocation(1)
    grant = world.master.grant_of(ID)
    assert grant is not None
    record = RestoreRecord(request=request, containers=grant.containers, started=started)
    await world.restart([record])


def test_a_new_master_finds_what_finished_while_it_was_away() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", program=run_for(10, exit_code=7))
        await world.run_allocation(allocation(1))
        await world.stop_master()
        await world.settle(60)
        await _restart_with(world, started=True)
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.exit_code == 7
        await agent.until(lambda: not agent.containers)

    play(scenario)


def test_a_new_master_starts_what_was_only_reserved_and_keeps_what_had_started_unnoticed() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        await _restart_with(world, started=False)
        await world.settle(5)
        await world.backend.start(ID, launch_spec(ID))
        await world.settle(60)
        assert len(agent.started) == 1
        assert world.master.exits(ID) == []

    play(scenario)


def test_a_new_master_kills_what_it_does_not_know() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        await world.restart()
        await agent.until(lambda: not agent.containers)
        await world.settle(60)
        assert world.master.exits(ID) == []

    play(scenario)


def test_a_new_master_does_not_wait_longer_than_one_window_for_an_agent() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1, slots=4))
        await world.stop_master()
        await agent.unplug()
        await world.settle(500)
        await _restart_with(world, started=True)
        begin = world.clock.monotonic()
        await world.master.lost(ID)
        assert world.clock.monotonic() - begin == pytest.approx(25, abs=1.1)

    play(scenario)


def test_what_was_held_on_an_agent_that_nobody_remembers_is_lost() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        world.store.records.clear()
        await _restart_with(world, started=True)
        assert "a1 is gone" in await world.master.lost(ID)

    play(scenario)


def test_containers_whose_end_is_committed_hold_nothing_after_a_restart() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1, slots=4))
        await agent.unplug()
        agent.exit(grant.containers[0].container_id)
        agent.plug_in()
        await world.master.ended(ID)
        ended = frozenset(c.container_id for c in grant.containers)
        await world.restart(
            [
                RestoreRecord(
                    request=allocation(1, slots=4),
                    containers=grant.containers,
                    started=True,
                    ended_containers=ended,
                )
            ]
        )
        await world.run_allocation(allocation(2, slots=4))
        assert len(world.master.exits(ID)) == 1

    play(scenario)


def test_what_a_removed_pool_held_is_lost() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.restart([RestoreRecord(request=allocation(1, pool="removed"))])
        assert "no resource pool 'removed'" in await world.master.lost(ID)

    play(scenario)


def test_an_agent_obeys_only_the_newest_master() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        agent.highest_epoch = 99
        await agent.drop()
        await agent.until(lambda: agent.refused is not None)
        assert agent.refused is not None
        assert agent.refused.retry
        assert "newer master" in agent.refused.reason
        await agent.die()

    play(scenario)


@pytest.mark.parametrize(
    ("agents", "met_at"),
    [
        ([("", "10.7.0.1"), ("", "10.7.0.2")], ["10.7.0.1", "10.7.0.2"]),
        ([("", "10.7.0.1"), ("told", "10.7.0.2")], [PEER, "told"]),
        ([("", ""), ("", "")], [PEER, PEER]),
        ([("", "10.7.0.1")], [PEER]),
    ],
    ids=["behind one NAT", "one says where", "agents of 0.1, or on one machine", "alone"],
)
def test_agents_of_a_gang_are_told_how_they_reach_each_other(
    agents: list[tuple[str, str]], met_at: list[str]
) -> None:
    async def scenario(world: AgentsWorld) -> None:
        for number, (address, own) in enumerate(agents):
            await world.add_agent(f"a{number}", slots=1, address=address, own_address=own)
        grant = await world.run_allocation(allocation(1, slots=len(agents)))
        assert [container.address for container in grant.containers] == met_at

    play(scenario)


def test_ranks_follow_the_size_of_the_parts() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", slots=2)
        await world.add_agent("a2", slots=4)
        grant = await world.run_allocation(allocation(1, slots=6))
        assert [(c.rank, c.agent_id, c.slot_ids, c.address) for c in grant.containers] == [
            (0, "a2", (0, 1, 2, 3), "addr-a2"),
            (1, "a1", (0, 1), "addr-a1"),
        ]
        specs = [
            message.spec
            for agent in world.agents.values()
            for message in sent_to(agent, StartContainer)
            if isinstance(message, StartContainer)
        ]
        assert sorted((s.rank, len(s.slot_ids)) for s in specs) == [(0, 4), (1, 2)]
        assert world.master.phases(ID).count(ContainerPhase.RUNNING) == 2

    play(scenario)
