"""Agents and single slots taken out of service: at once, or as soon as what runs there has finished."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agent_bootstrap.protocol import KillContainer, Slot, SlotKind
from master.core.reasons import ReasonKind
from master.core.scheduler.types import AgentState, Decision, PoolState
from rm_backends.agents.connections.hello import carry_over
from rm_backends.base import FailureKind, Granted, RestoreRecord
from rm_backends.ports import AgentRecord, SlotService
from tests.fakes.actors import ADMIN
from tests.fakes.agents_world import (
    AgentsWorld,
    allocation,
    launch_spec,
    play,
    sent_to,
)
from tests.fakes.fake_agent import run_for
from tests.fakes.first_fit import first_fit
from tests.fakes.pools import EMBEDDED, resolved_pool
from windlass.base.errors import NotFound, StoreUnavailable

ID = "task-1.1"
CLOUD = resolved_pool("default", EMBEDDED)


def agent_state(world: AgentsWorld) -> tuple[bool, bool]:
    view = world.backend.observer.agent("a1")
    return view.enabled, view.draining


def slot_states(world: AgentsWorld) -> list[tuple[bool, bool]]:
    return [(slot.enabled, slot.draining) for slot in world.backend.observer.agent("a1").slots]


def started(number: int, grant: Granted, *, slots: int = 1) -> RestoreRecord:
    request = allocation(number, slots=slots)
    return RestoreRecord(request=request, containers=grant.containers, started=True)


ENABLED, DISABLED, DRAINING = (True, False), (False, False), (False, True)


# Whole agents


def test_a_draining_agent_is_disabled_with_the_end_of_its_last_work() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        first = await world.run_allocation(allocation(1))
        aux = await world.run_allocation(allocation(2, slots=0))
        await world.backend.operator.disable_agent("a1", drain=True, by=ADMIN)
        assert agent_state(world) == DRAINING
        assert slot_states(world) == [DRAINING, DRAINING], "as published: the empty one, too"

        await world.restart([started(1, first), started(2, aux, slots=0)])
        await agent.until(lambda: agent.connected)
        assert agent_state(world) == DRAINING, "a new master drains on"
        agent.exit(first.containers[0].container_id)
        await world.master.ended(ID)
        assert agent_state(world) == DRAINING, "a task without slots is work too"
        agent.exit(aux.containers[0].container_id)
        (ended,) = await world.master.ended("task-2.1")
        assert ended.exit is not None
        assert (ended.exit.exit_code, ended.exit.failure) == (0, None)
        await agent.until(lambda: not agent.containers)
        assert agent_state(world) == DISABLED

        await world.restart()
        await world.settle(5)
        assert agent_state(world) == DISABLED
        await world.backend.operator.enable_agent("a1", by=ADMIN)
        assert (agent_state(world), slot_states(world)) == (ENABLED, [ENABLED, ENABLED])
        await world.run_allocation(allocation(3, slots=2))

    play(scenario)


@pytest.mark.parametrize("restart", [False, True])
def test_an_agent_disabled_while_it_is_away_ends_its_work_at_its_return(restart: bool) -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1))
        await agent.unplug()
        await world.settle(1)
        await world.backend.operator.disable_agent("a1", drain=False, by=ADMIN)
        if restart:
            await world.restart([started(1, grant)])
        await world.backend.operator.enable_agent("a1", by=ADMIN)
        agent.plug_in()
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.failure is FailureKind.AGENT_FAILED, "though it was enabled meanwhile"
        assert ended.exit.message == "agent a1 was disabled"

    play(scenario)


def test_an_agent_may_be_drained_while_it_is_away() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1))
        await agent.unplug()
        await world.backend.operator.disable_agent("a1", drain=True, by=ADMIN)
        agent.plug_in()
        await agent.until(lambda: agent.connected)
        await world.settle(60)
        assert agent_state(world) == DRAINING
        assert list(agent.containers) == [grant.containers[0].container_id]

    play(scenario)


# Single slots


def test_a_disabled_slot_loses_its_work_and_gets_none() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        first = await world.run_allocation(allocation(1))
        second = await world.run_allocation(allocation(2))
        assert [g.containers[0].slot_ids for g in (first, second)] == [(0,), (1,)]
        view = await world.backend.operator.disable_slot("a1", 0, drain=False, by=ADMIN)
        assert (view.enabled, view.draining) == DISABLED
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.failure is FailureKind.AGENT_FAILED
        assert ended.exit.message == "slot 0 of agent a1 was disabled"
        await world.backend.request(allocation(3))
        await world.settle(60)
        assert world.master.grant_of("task-3.1") is None
        assert world.master.exits("task-2.1") == [], "the other slot goes on"

        agent.exit(second.containers[0].container_id)
        third = await world.master.granted("task-3.1")
        assert third.containers[0].slot_ids == (1,)
        await world.backend.request(allocation(4))
        await world.settle(60)
        await world.backend.operator.enable_slot("a1", 0, by=ADMIN)
        fourth = await world.master.granted("task-4.1")
        assert fourth.containers[0].slot_ids == (0,)

    play(scenario)


def test_a_draining_slot_is_disabled_with_the_end_of_its_work() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        grant = await world.run_allocation(allocation(1))
        view = await world.backend.operator.disable_slot("a1", 0, drain=True, by=ADMIN)
        assert (view.enabled, view.draining) == DRAINING
        await world.backend.request(allocation(2, slots=2))
        await world.restart([started(1, grant), RestoreRecord(request=allocation(2, slots=2))])
        await agent.until(lambda: agent.connected)
        await world.settle(60)
        assert slot_states(world) == [DRAINING, ENABLED]
        assert world.master.exits(ID) == []
        agent.exit(grant.containers[0].container_id)
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert (ended.exit.exit_code, ended.exit.failure) == (0, None)
        await agent.until(lambda: not agent.containers)
        assert slot_states(world) == [DISABLED, ENABLED]
        await world.settle(60)
        assert world.master.grant_of("task-2.1") is None
        await world.backend.operator.enable_slot("a1", 0, by=ADMIN)
        await world.master.granted("task-2.1")

    play(scenario)


def test_slots_stay_out_of_service_over_restarts_and_while_their_agent_is_disabled() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=3)
        await world.backend.operator.disable_slot("a1", 0, drain=False, by=ADMIN)
        await world.backend.operator.disable_slot("a1", 1, drain=True, by=ADMIN)
        await world.restart()
        assert slot_states(world) == [DISABLED, DISABLED, ENABLED], "before the agent is back"
        await world.backend.operator.disable_agent("a1", drain=False, by=ADMIN)
        assert slot_states(world) == [DISABLED] * 3
        await agent.until(lambda: agent.connected)
        await world.backend.operator.enable_agent("a1", by=ADMIN)
        assert slot_states(world) == [DISABLED, DISABLED, ENABLED]
        kept = {0: SlotService.DISABLED, 1: SlotService.DRAINING}
        assert world.store.records["a1"].slot_service == kept
        grant = await world.run_allocation(allocation(1))
        assert grant.containers[0].slot_ids == (2,)

    play(scenario)


def test_slots_that_nobody_has_cannot_be_disabled() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", slots=2)
        for agent_id, slot_id, told in (
            ("a1", 2, "agent 'a1': slot '2' not found"),
            ("a2", 0, "agent 'a2' not found"),
        ):
            with pytest.raises(NotFound, match=told):
                await world.backend.operator.disable_slot(agent_id, slot_id, drain=True, by=ADMIN)
            with pytest.raises(NotFound, match=told):
                await world.backend.operator.enable_slot(agent_id, slot_id, by=ADMIN)
            with pytest.raises(NotFound, match=told):
                world.backend.operator.slot(agent_id, slot_id)
        assert world.store.records["a1"].slot_service == {}

    play(scenario)


def test_what_cannot_be_saved_does_not_happen() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        await world.run_allocation(allocation(1))
        world.store.failure = StoreUnavailable("the disk is full")
        with pytest.raises(StoreUnavailable):
            await world.backend.operator.disable_slot("a1", 0, drain=False, by=ADMIN)
        with pytest.raises(StoreUnavailable):
            await world.backend.operator.disable_agent("a1", drain=False, by=ADMIN)
        await world.settle(60)
        assert slot_states(world) == [ENABLED, ENABLED]
        assert sent_to(agent, KillContainer) == []

    play(scenario)


def test_disabling_one_slot_of_a_gang_stops_the_part_that_holds_it() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        other = await world.add_agent("a2")
        grant = await world.run_allocation(allocation(1, slots=8))
        await world.backend.operator.disable_slot("a1", 3, drain=False, by=ADMIN)
        (ended,) = await world.master.ended(ID)
        assert ended.container_id == grant.containers[0].container_id
        assert list(other.containers) == [grant.containers[1].container_id]
        await world.backend.kill(ID)
        assert len(await world.master.ended(ID, 2)) == 2

    play(scenario)


def test_a_slot_disabled_while_its_agent_is_away_ends_its_work_at_its_return() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        await world.run_allocation(allocation(1))
        keeps = await world.run_allocation(allocation(2))
        await agent.unplug()
        await world.settle(1)
        await world.backend.operator.disable_slot("a1", 0, drain=False, by=ADMIN)
        agent.plug_in()
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.failure is FailureKind.AGENT_FAILED
        await agent.until(lambda: list(agent.containers) == [keeps.containers[0].container_id])

    play(scenario)


# What else happens at the same time


def test_a_grant_made_while_the_slot_is_being_disabled_is_lost() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        saved, save = asyncio.Event(), world.store.save

        async def save_slowly(record: AgentRecord) -> None:
            await saved.wait()
            await save(record)

        world.store.save = save_slowly  # type: ignore[method-assign]
        disabling = asyncio.ensure_future(
            world.backend.operator.disable_slot("a1", 0, drain=False, by=ADMIN)
        )
        await world.backend.request(allocation(1))
        grant = await world.master.granted(ID)
        assert grant.containers[0].slot_ids == (0,)
        saved.set()
        await disabling
        await world.backend.start(ID, launch_spec(ID))
        assert await world.master.lost(ID) == "slot 0 of agent a1 was disabled"
        await world.settle(60)
        assert agent.started == []
        second = await world.run_allocation(allocation(2))
        assert second.containers[0].slot_ids == (1,)

    play(scenario)


def test_a_decision_made_before_the_slot_was_disabled_is_dropped() -> None:
    before = (AgentState(id="a1", slots=1),)

    def decide(state: PoolState) -> Decision:
        return first_fit(replace(state, agents=before))

    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", slots=1)
        await world.backend.operator.disable_slot("a1", 0, drain=True, by=ADMIN)
        await world.backend.request(allocation(1))
        await world.settle(60)
        assert slot_states(world) == [DISABLED]
        assert world.master.of(ID) == []
        await world.backend.operator.enable_slot("a1", 0, by=ADMIN)
        await world.master.granted(ID)

    play(scenario, decide=decide)


def test_a_kill_while_the_loss_is_not_committed_gives_the_slot_back_once() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2)
        await world.backend.request(allocation(1))
        await world.master.granted(ID)
        world.master.open.clear()
        await world.backend.operator.disable_slot("a1", 0, drain=False, by=ADMIN)
        await world.backend.kill(ID)
        world.master.open.set()
        assert await world.master.lost(ID)
        await world.settle(60)
        assert len(world.master.losses(ID)) == 1
        assert slot_states(world) == [DISABLED, ENABLED]
        await world.backend.operator.enable_slot("a1", 0, by=ADMIN)
        await world.run_allocation(allocation(2, slots=2))
        assert len(agent.started) == 1

    play(scenario)


def test_a_kill_of_what_runs_on_a_slot_that_was_disabled_ends_it_once() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=1)
        await world.run_allocation(allocation(1))
        world.master.open.clear()
        await world.backend.operator.disable_slot("a1", 0, drain=False, by=ADMIN)
        await world.backend.kill(ID)
        await world.backend.operator.enable_slot("a1", 0, by=ADMIN)
        world.master.open.set()
        await world.run_allocation(allocation(2))
        assert len(world.master.exits(ID)) == 1
        assert len(agent.started) == 2

    play(scenario)


# What others see


def test_the_scheduler_counts_slots_in_service_and_those_that_are_closing() -> None:
    seen: list[PoolState] = []

    def decide(state: PoolState) -> Decision:
        seen.append(state)
        return first_fit(state)

    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1, slots=2))
        await world.backend.operator.disable_slot("a1", 1, drain=True, by=ADMIN)
        await world.backend.operator.disable_slot("a1", 2, drain=True, by=ADMIN)
        await world.settle()
        (running,) = seen[-1].running
        assert (seen[-1].agents[0].slots, running.closing) == (3, {"a1": 1})
        agent.exit(grant.containers[0].container_id)
        await world.master.ended(ID)
        await world.settle()
        assert (seen[-1].agents[0].slots, seen[-1].running) == (2, ())
        await world.backend.operator.enable_slot("a1", 1, by=ADMIN)
        await world.settle()
        assert seen[-1].agents[0].slots == 3

    play(scenario, decide=decide)


def test_an_agent_back_with_other_slots_loses_what_ran_there() -> None:
    seen: list[PoolState] = []

    def decide(state: PoolState) -> Decision:
        seen.append(state)
        return first_fit(state)

    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.backend.operator.disable_slot("a1", 3, drain=False, by=ADMIN)
        grant = await world.run_allocation(allocation(1, slots=3))
        agent.slots = 2
        await agent.drop()
        await agent.until(lambda: agent.connected)
        await world.settle()
        assert world.store.records["a1"].slot_service == {}, "slot 3 is forgotten"
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert ended.exit.failure is FailureKind.AGENT_FAILED
        assert ended.exit.message == ("agent a1 came back with other slots: 2 instead of 4")
        assert ended.container_id == grant.containers[0].container_id
        await world.settle()
        assert seen[-1].agents[0].slots == 2
        await world.run_allocation(allocation(2, slots=1))
        agent.slots = 4
        await agent.drop()
        await agent.until(lambda: agent.connected)
        await world.settle()
        (ended,) = await world.master.ended("task-2.1")
        assert ended.exit is not None
        assert ended.exit.message == "agent a1 came back with other slots: 4 instead of 2"

    play(scenario, decide=decide)


def test_slots_out_of_service_may_come_back_so_work_for_them_waits_with_a_reason() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        await world.backend.operator.disable_slot("a1", 3, drain=False, by=ADMIN)
        world.backend.check(allocation(1, slots=4))
        await world.backend.request(allocation(1, slots=4))
        await world.settle(60)
        reason = world.backend.explain(ID)
        assert reason is not None
        assert reason.kind is ReasonKind.NO_SUCH_AGENT
        assert "can hold 4 slots" in reason.text
        await world.backend.operator.enable_slot("a1", 3, by=ADMIN)
        await world.master.granted(ID)

    play(scenario)


def test_the_provisioner_counts_a_node_without_its_disabled_slots() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", instance_id="a1")
        await world.run_allocation(allocation(1))
        await world.backend.operator.disable_slot("a1", 0, drain=True, by=ADMIN)
        await world.backend.operator.disable_slot("a1", 3, drain=False, by=ADMIN)
        await world.settle()
        ((node,),) = [demand.nodes for demand in world.nodes.demand()]
        assert (node.slots, node.free_slots, node.busy) == (3, 2, True)

    play(scenario, CLOUD)


def test_labels_are_those_of_the_last_hello() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", labels=("rack=a12", "loud"))
        assert world.backend.observer.agent("a1").labels == ("rack=a12", "loud")
        agent.labels = ("rack=b1",)
        await agent.drop()
        await agent.until(lambda: agent.connected)
        assert world.backend.observer.agent("a1").labels == ("rack=b1",)

    play(scenario)


def gpus(*uuids: str) -> tuple[Slot, ...]:
    return tuple(Slot(id=n, kind=SlotKind.CUDA, uuid=uuid) for n, uuid in enumerate(uuids))


HOT, SICK = SlotService.DRAINING, SlotService.DISABLED


@pytest.mark.parametrize(
    ("before", "now", "service", "carried"),
    [
        pytest.param(gpus("a", "b"), gpus("a", "b"), {1: SICK}, {1: SICK}, id="as it was"),
        pytest.param(gpus("a", "b"), gpus("b"), {1: SICK}, {0: SICK}, id="another number"),
        pytest.param(
            gpus("a", "b"), gpus("b", "a"), {0: HOT, 1: SICK}, {0: SICK, 1: HOT}, id="swapped"
        ),
        pytest.param(gpus("a", "b"), gpus("b"), {0: SICK}, {}, id="gone"),
        pytest.param(gpus("a", "b"), gpus("c", "b"), {0: SICK}, {}, id="replaced"),
        pytest.param((), gpus("a", "b"), {1: SICK, 2: HOT}, {1: SICK}, id="only remembered"),
        pytest.param(gpus("", ""), gpus("", ""), {1: HOT}, {1: HOT}, id="no serial numbers"),
    ],
)
def test_what_was_done_with_a_device_stays_with_it(
    before: tuple[Slot, ...],
    now: tuple[Slot, ...],
    service: dict[int, SlotService],
    carried: dict[int, SlotService],
) -> None:
    assert carry_over(service, before, now) == carried


def test_work_that_ends_by_itself_while_its_agent_drains_counts_as_it_ended() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", program=run_for(10, exit_code=3))
        await world.run_allocation(allocation(1))
        await world.backend.operator.disable_slot("a1", 0, drain=True, by=ADMIN)
        await world.backend.operator.disable_agent("a1", drain=True, by=ADMIN)
        (ended,) = await world.master.ended(ID)
        assert ended.exit is not None
        assert (ended.exit.exit_code, ended.exit.failure) == (3, None)

    play(scenario)
