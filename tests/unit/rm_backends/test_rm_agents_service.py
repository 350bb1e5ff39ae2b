"""Who may connect, agents taken out of service, the provisioner's view, reasons, logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_bootstrap.protocol import (
    ChannelClosed,
    Heartbeat,
    Hello,
    JoinRefused,
    KillContainer,
    LogAck,
    Message,
    Slot,
    SlotKind,
    Welcome,
)
from master.core.reasons import ReasonKind
from provisioner.types import LaunchableNode, PoolAvailability, PoolCapacity
from rm_backends.base import FailureKind
from rm_backends.ports import NoMachines
from tests.fakes.actors import ADMIN
from tests.fakes.agents_world import (
    TOKEN,
    AgentsWorld,
    allocation,
    launch_spec,
    play,
    sent_to,
)
from tests.fakes.pools import EMBEDDED, resolved_pool
from windlass.base.errors import Conflict, NotFound, StoreUnavailable, Unfulfillable, Unsatisfiable

ID = "task-1.1"
CLOUD = resolved_pool("default", EMBEDDED)


HELLO = Hello(version="1", agent_id="a1", pool="default", boot_id="b")


@pytest.mark.parametrize(
    ("pool", "token", "first", "why", "retry"),
    [
        ("default", "wrong", HELLO, "join token is not valid", False),
        ("other", "wrong", HELLO, "join token is not valid", False),
        ("other", TOKEN, HELLO, "no resource pool 'other'", False),
        ("default", TOKEN, HELLO.model_copy(update={"pool": "x"}), "says 'x'", False),
        ("default", TOKEN, HELLO.model_copy(update={"protocol": 9}), "speaks protocol 9", False),
        ("default", TOKEN, HELLO.model_copy(update={"agent_id": "a 1"}), "agent id must", False),
        (
            "default",
            TOKEN,
            HELLO.model_copy(update={"slots": (Slot(id=0, kind=SlotKind.CPU),) * 2}),
            "same number",
            False,
        ),
        ("default", TOKEN, Heartbeat(), "must be Hello", False),
        ("default", TOKEN, None, "no Hello in time", True),
    ],
)
def test_who_is_refused(
    pool: str, token: str, first: Message | None, why: str, retry: bool
) -> None:
    async def scenario(world: AgentsWorld) -> None:
        channel = world.connect(pool=pool, token=token)
        if first is not None:
            await channel.send(first)
        answer = await channel.receive()
        assert isinstance(answer, JoinRefused)
        assert why in answer.reason
        assert token not in answer.reason
        assert answer.retry is retry
        with pytest.raises(ChannelClosed):
            await channel.receive()
        assert world.store.records == {}
        assert world.backend.observer.agents() == ()

    play(scenario)


def test_an_agent_is_saved_before_it_is_welcome() -> None:
    async def scenario(world: AgentsWorld) -> None:
        world.store.failure = StoreUnavailable("the disk is full")
        channel = world.connect(pool="default")
        await channel.send(HELLO)
        answer = await channel.receive()
        assert isinstance(answer, JoinRefused)
        assert answer.retry
        world.store.failure = None
        channel = world.connect(pool="default")
        await channel.send(HELLO)
        assert isinstance(await channel.receive(), Welcome)
        assert set(world.store.records) == {"a1"}

    play(scenario)


def test_a_connection_that_talks_out_of_place_is_closed() -> None:
    async def scenario(world: AgentsWorld) -> None:
        channel = world.connect(pool="default")
        await channel.send(HELLO)
        await channel.receive()
        await channel.send(HELLO)
        with pytest.raises(ChannelClosed):
            await channel.receive()

    play(scenario)


def test_an_agent_moves_to_another_pool_only_without_work() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        grant = await world.run_allocation(allocation(1))
        await agent.unplug()
        moved = world.new_agent("a1", pool="second", boot_id="boot-2", reconnect_s=5.0)
        world.tasks.create_task(moved.run())
        await moved.until(lambda: moved.refused is not None)
        agent.plug_in()
        agent.exit(grant.containers[0].container_id)
        await world.master.ended(ID)
        await agent.die()
        await moved.until(lambda: moved.connected)
        assert [(a.id, a.pool) for a in world.backend.observer.agents()] == [("a1", "second")]
        assert world.store.records["a1"].pool == "second"

    play(scenario, resolved_pool("default"), resolved_pool("second"))


def test_draining_lets_work_finish_and_disabling_does_not() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        first = await world.run_allocation(allocation(1))
        await world.run_allocation(allocation(2))
        view = await world.backend.operator.disable_agent("a1", drain=True, by=ADMIN)
        assert (view.enabled, view.draining) == (False, True)
        await world.backend.request(allocation(3))
        await world.settle(60)
        assert world.master.grant_of("task-3.1") is None
        reason = world.backend.explain("task-3.1")
        assert reason is not None
        assert reason.kind is ReasonKind.NO_SUCH_AGENT
        agent.exit(first.containers[0].container_id)
        await world.master.ended(ID)
        assert world.master.exits("task-2.1") == []

        await world.backend.operator.disable_agent("a1", drain=False, by=ADMIN)
        (ended,) = await world.master.ended("task-2.1")
        assert ended.exit is not None
        assert ended.exit.failure is FailureKind.AGENT_FAILED
        assert ended.exit.message == "agent a1 was disabled"

        await world.backend.operator.enable_agent("a1", by=ADMIN)
        await world.master.granted("task-3.1")

    play(scenario)


def test_a_disabled_agent_stays_disabled_over_a_restart() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.backend.operator.disable_agent("a1", drain=False, by=ADMIN)
        await world.restart()
        await world.settle(5)
        assert agent.connected
        await world.backend.request(allocation(1))
        await world.settle(60)
        assert world.master.grant_of(ID) is None
        await world.backend.operator.enable_agent("a1", by=ADMIN)
        await world.master.granted(ID)

    play(scenario)


def test_disabling_gives_up_reservations_that_were_not_started() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        await world.backend.request(allocation(1))
        await world.master.granted(ID)
        await world.backend.operator.disable_agent("a1", drain=False, by=ADMIN)
        assert await world.master.lost(ID) == "agent a1 was disabled"
        await world.backend.start(ID, launch_spec(ID))
        await world.settle(60)
        assert world.agents["a1"].started == []

    play(scenario)


def test_only_absent_agents_can_be_forgotten() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        with pytest.raises(Conflict, match="is connected"):
            await world.backend.operator.forget_agent("a1", force=False, by=ADMIN)
        await agent.die()
        await world.settle(30)
        world.backend.check(allocation(1))
        await world.backend.operator.forget_agent("a1", force=False, by=ADMIN)
        assert world.store.records == {}
        with pytest.raises(NotFound):
            world.backend.observer.agent("a1")
        with pytest.raises(Unsatisfiable, match="has ever connected"):
            world.backend.check(allocation(1))

    play(scenario)


def test_a_node_is_cordoned_only_if_nothing_is_placed_on_it() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1", instance_id="a1")
        await world.backend.request(allocation(1))
        await world.master.granted(ID)
        assert not world.nodes.cordon("a1"), "a reservation is enough"
        await world.backend.kill(ID)
        assert world.nodes.cordon("a1")
        await world.backend.request(allocation(2))
        await world.settle(60)
        assert world.master.grant_of("task-2.1") is None
        (demand,) = world.nodes.demand()
        assert [gang.request_id for gang in demand.gangs] == ["task-2.1"]
        world.nodes.uncordon("a1")
        await world.master.granted("task-2.1")

    play(scenario, CLOUD)


def test_a_node_cordoned_before_it_connects_gets_nothing() -> None:
    async def scenario(world: AgentsWorld) -> None:
        assert world.nodes.cordon("i-1")
        await world.add_agent("i-1", instance_id="i-1")
        await world.backend.request(allocation(1))
        await world.settle(60)
        assert world.master.grant_of(ID) is None

    play(scenario, CLOUD)


def test_an_instance_that_is_gone_is_lost_without_waiting() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("i-1", instance_id="i-1")
        await world.run_allocation(allocation(1))
        await agent.die()
        begin = world.clock.monotonic()
        for _ in range(2):
            await world.nodes.instance_gone("i-1", "spot reclaim")
        assert "spot reclaim" in await world.master.lost(ID)
        assert world.clock.monotonic() - begin < 1
        assert world.store.records == {}
        assert world.backend.observer.agents() == ()

    play(scenario, CLOUD)


class Provisioner:
    def __init__(self, world: AgentsWorld, capacity: PoolCapacity) -> None:
        self.woken = 0
        self.seen: list[tuple[str, bool]] = []
        world.nodes.connect(
            wake=self.wake,
            capacity=lambda pool: capacity,
            note_agent=lambda agent_id, connected: self.seen.append((agent_id, connected)),
            machines=NoMachines(),
        )

    def wake(self) -> None:
        self.woken += 1


def test_no_machine_is_launched_for_what_launches_none() -> None:
    async def scenario(world: AgentsWorld) -> None:
        Provisioner(world, PoolCapacity(pool="default", node_slots=(4,), max_instances=3))
        collection = replace(allocation(1, slots=4), launches_machines=False)
        await world.backend.request(collection)
        await world.backend.request(allocation(2, slots=4))
        await world.settle()
        (demand,) = world.nodes.demand()
        assert [gang.request_id for gang in demand.gangs] == ["task-2.1"]

    play(scenario, CLOUD)


def test_demand_is_gangs_and_nodes_of_one_instant() -> None:
    async def scenario(world: AgentsWorld) -> None:
        provisioner = Provisioner(
            world, PoolCapacity(pool="default", node_slots=(4,), max_instances=3)
        )
        for number in (1, 2, 3):
            await world.backend.request(allocation(number, slots=4))
        await world.settle()
        (demand,) = world.nodes.demand()
        assert [gang.slots for gang in demand.gangs] == [4, 4, 4]
        assert provisioner.woken == 1

        agent = await world.add_agent("i-1", instance_id="i-1")
        (demand,) = world.nodes.demand()
        assert provisioner.seen == [("i-1", True)]
        assert (len(demand.gangs), len(demand.nodes)) == (3, 0), "no node before its gang is placed"
        await world.settle()
        (demand,) = world.nodes.demand()
        assert len(demand.gangs) == 2
        (node,) = demand.nodes
        assert (node.agent_id, node.instance_id) == ("i-1", "i-1")
        assert (node.slots, node.free_slots, node.busy, node.connected) == (4, 0, True, True)
        assert provisioner.woken == 2
        await world.settle(600)
        assert provisioner.woken == 2, "unchanged demand wakes nobody"
        await agent.unplug()
        await world.settle()
        assert provisioner.seen == [("i-1", True), ("i-1", False)]
        (demand,) = world.nodes.demand()
        assert [node.connected for node in demand.nodes] == [False]

    play(scenario, CLOUD)


def test_a_dynamic_pool_can_be_what_its_provisioner_could_launch() -> None:
    async def scenario(world: AgentsWorld) -> None:
        Provisioner(world, PoolCapacity(pool="default", node_slots=(1, 8), max_instances=3))
        for slots in (0, 2, 8, 16, 24):
            world.backend.check(allocation(1, slots=slots))
        for slots, nearest in ((12, "8 and 16"), (100, "24")):
            with pytest.raises(Unsatisfiable, match=f"{nearest}$"):
                world.backend.check(allocation(1, slots=slots))

    play(scenario, CLOUD)


def test_who_asks_for_more_than_the_largest_machine_has_is_told_of_the_network() -> None:
    async def scenario(world: AgentsWorld) -> None:
        Provisioner(world, PoolCapacity(pool="default", node_slots=(1, 8), max_instances=3))
        for slots in (0, 1, 2, 8):
            assert world.backend.check(allocation(1, slots=slots)) == ()
        assert world.backend.check(allocation(1, slots=16)) == (
            "16 slots run on several machines, for the largest of resource pool 'default' has 8: "
            "the network between them may slow the work",
        )

    play(scenario, CLOUD)


def test_who_asks_for_a_machine_that_cannot_be_launched_now_is_told_of_the_network() -> None:
    def could(*sizes: int) -> PoolAvailability:
        nodes = [LaunchableNode(slots=size, count=9, ready_in_s=60.0) for size in sizes]
        return PoolAvailability(pool="default", launchable=tuple(nodes))

    async def scenario(world: AgentsWorld) -> None:
        Provisioner(world, PoolCapacity(pool="default", node_slots=(1, 8), max_instances=9))
        world.nodes.availability(could(1, 8))
        assert world.backend.check(allocation(1, slots=8)) == ()
        world.nodes.availability(could(1))
        assert world.backend.check(allocation(1, slots=1)) == ()
        assert world.backend.check(replace(allocation(1, slots=8), single_agent=True)) == ()
        assert world.backend.check(allocation(1, slots=8)) == (
            "8 slots run on several machines if they start now, for the largest that resource pool 'default' has "
            "or can launch has 1 (see: det fleet offers): the network between them may slow the work",
        )
        await world.add_agent("a1", slots=8)
        assert world.backend.check(allocation(1, slots=8)) == ()
        world.nodes.availability(could())
        assert world.backend.check(allocation(1, slots=8)) == (), "nothing starts now"

    play(scenario, CLOUD)


def test_what_must_run_on_one_agent_and_is_larger_than_any_is_unfulfillable() -> None:
    async def scenario(world: AgentsWorld) -> None:
        alone = replace(allocation(1, slots=99), single_agent=True)
        with pytest.raises(Unsatisfiable) as nobody_yet:
            world.backend.check(alone)
        assert not isinstance(nobody_yet.value, Unfulfillable), "agents may still come"
        await world.add_agent("a1")
        with pytest.raises(Unfulfillable, match="request unfulfillable: Requested 99 slots"):
            world.backend.check(alone)

    play(scenario)


def test_logs_are_stored_once_and_survive_failures_and_reconnects() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        (container,) = (await world.run_allocation(allocation(1))).containers
        world.logs.failures = 2
        agent.log(container.container_id, "one", "two")
        await agent.until(lambda: not agent.unacked)
        await agent.unplug()
        agent.log(container.container_id, "three")
        agent.plug_in()
        await agent.until(lambda: not agent.unacked)
        assert world.logs.lines == ["one", "two", "three"]
        welcome = sent_to(agent, Welcome)[-1]
        assert isinstance(welcome, Welcome)
        assert welcome.log_offsets == {container.container_id: 46}
        assert [m.next_offset for m in sent_to(agent, LogAck)] == [46, 71]  # type: ignore[attr-defined]

    play(scenario)


def test_a_slow_log_store_delays_no_exit() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        (container,) = (await world.run_allocation(allocation(1))).containers
        idle = [
            (await world.run_allocation(allocation(n, slots=0))).containers[0] for n in range(2, 42)
        ]
        world.logs.failures = 10**6
        for each in (container, *idle):
            agent.log(each.container_id, "one")
        agent.exit(container.container_id)
        await world.master.ended(ID)
        world.logs.failures = 0
        await agent.until(lambda: not agent.unacked)
        assert world.logs.lines == ["one"] * 41

    play(scenario)


def test_an_agent_is_shown_with_its_slots_and_notes() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1", slots=2, address="")
        (container,) = (await world.run_allocation(allocation(1))).containers
        agent.beat(Heartbeat(disk_free_bytes=1 << 20, notes=("no namespaces",)))
        await world.settle()
        view = world.backend.observer.agent("a1")
        assert view.address == "10.9.9.9", "the peer's address if it does not tell one"
        assert view.notes == ("no namespaces", "disk nearly full: 1 MiB left")
        assert [(s.id, s.kind, s.container_id, s.allocation_id) for s in view.slots] == [
            (0, "artificial", container.container_id, ID),
            (1, "artificial", None, None),
        ]
        agent.beat(Heartbeat(disk_free_bytes=1 << 40))
        await world.settle()
        assert world.backend.observer.agent("a1").notes == ("no namespaces",)

    play(scenario)


def test_kills_are_repeated_as_often_as_asked() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        world.master.open.clear()
        await world.backend.kill(ID)
        await world.settle()
        await world.backend.kill(ID)
        await world.settle()
        assert len(sent_to(agent, KillContainer)) == 1, "its end is on the way already"
        world.master.open.set()
        await world.master.ended(ID)

    play(scenario)
