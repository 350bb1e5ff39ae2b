"""A machine with a join token, or with a credential of its own, tries to be another one, or to touch another's work."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent_bootstrap.bounds import FIRST_MOMENT, LAST_MOMENT
from agent_bootstrap.protocol import (
    ContainerReport,
    ContainerState,
    ExitRecord,
    ForgetContainer,
    Heartbeat,
    JoinRefused,
    Leaving,
    LogAck,
    LogBatch,
    LogEntry,
    Slot,
    SlotKind,
    StartContainer,
    Welcome,
)
from rm_backends.agents.connections import admission
from rm_backends.base import RestoreRecord
from rm_backends.ports import JoinGrant, JoinKind
from tests.fakes.agents_world import (
    TOKEN,
    AgentsWorld,
    Machines,
    allocation,
    sent_to,
)
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.posing_agents import hello, play, say_hello, until_closed, untouched, working

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("boot_id", ["boot-1", "evil"])
@pytest.mark.parametrize("credential", ["", "stolen from nobody"])
def test_a_stolen_join_token_takes_no_agent_that_has_a_credential(
    connected: bool, boot_id: str, credential: str
) -> None:
    async def scenario(world: AgentsWorld) -> None:
        victim, _ = await working(world)
        if not connected:
            await victim.unplug()
        channel, answer = await say_hello(world, hello(boot_id=boot_id), credential=credential)
        assert isinstance(answer, JoinRefused)
        assert not answer.retry
        assert await until_closed(channel) == []
        victim.plug_in()
        await victim.until(lambda: victim.connected)
        await world.settle(60)
        assert untouched(world)

    play(scenario)


@pytest.mark.parametrize("boot_id", ["boot-1", "evil"])
def test_an_agent_without_a_credential_is_not_taken_while_it_is_connected(boot_id: str) -> None:
    async def scenario(world: AgentsWorld) -> None:
        await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        _, answer = await say_hello(world, hello(boot_id=boot_id), credential="made up")
        assert isinstance(answer, JoinRefused)
        assert "connected already" in answer.reason
        assert world.store.records["a1"].credential_hash is None
        assert untouched(world)

    play(scenario)


@pytest.mark.parametrize("token", [TOKEN, ""])
def test_a_credential_is_of_one_agent_in_one_pool(token: str) -> None:
    async def scenario(world: AgentsWorld) -> None:
        await working(world, 1)
        await working(world, 2)
        for message in (
            hello("a2"),
            hello("a2", boot_id="boot-1"),
            hello("new"),
            hello("a1", pool="other"),
            hello("a1", instance_id="a2"),
        ):
            _, answer = await say_hello(world, message, token=token, credential="of a1")
            assert isinstance(answer, JoinRefused), message
        assert untouched(world, 1)
        assert untouched(world, 2)

    play(scenario)


def test_the_newer_of_two_connections_with_the_same_credential_wins_and_no_work_is_lost() -> None:
    async def scenario(world: AgentsWorld) -> None:
        victim, container = await working(world)
        victim.reconnect_s = 10_000
        report = ContainerReport(
            container_id=container.container_id,
            allocation_id="task-1.1",
            state=ContainerState.RUNNING,
        )
        slots = victim._hello().slots
        again = hello(boot_id="boot-1", slots=slots, containers=(report,))
        _, answer = await say_hello(world, again, token="", credential="of a1")
        assert isinstance(answer, Welcome)
        assert answer.keep == (container.container_id,)
        await victim.until(lambda: not victim.connected)
        assert "took over" in world.channels[0].closed_because
        await world.settle(25)
        assert untouched(world)

    play(scenario)


def test_a_copy_of_a_work_dir_on_another_machine_takes_nothing_from_the_first() -> None:
    async def scenario(world: AgentsWorld) -> None:
        await working(world)
        _, answer = await say_hello(world, hello(), token="", credential="of a1")
        assert isinstance(answer, JoinRefused)
        assert "from another machine" in answer.reason
        _, answer = await say_hello(world, hello("a9"), credential="of a1")
        assert isinstance(answer, JoinRefused)
        assert "'a1' is connected with this credential" in answer.reason
        assert untouched(world)

    play(scenario)


def test_an_old_hello_cannot_be_replayed_over_a_connection() -> None:
    async def scenario(world: AgentsWorld) -> None:
        channel, answer = await say_hello(world, hello("a9"), credential="of a9")
        assert isinstance(answer, Welcome)
        await channel.send(hello("a9", highest_epoch=0))
        await until_closed(channel)
        assert "out of place: Hello" in channel.closed_because

    play(scenario)


def test_nobody_joins_as_a_machine_of_a_provider_but_its_launch() -> None:
    async def scenario(world: AgentsWorld) -> None:
        world.nodes.connect(
            wake=lambda: None,
            capacity=lambda _: None,
            note_agent=lambda *_: None,
            machines=Machines({"launch-1": frozenset({"i-1"})}),
        )
        for message in (hello("i-1"), hello("i-1", instance_id="i-1"), hello(instance_id="i-1")):
            _, answer = await say_hello(world, message, credential="of a thief")
            assert isinstance(answer, JoinRefused), message
        grant = JoinGrant(kind=JoinKind.LAUNCH, pool="default", id="launch-1", agents=1)
        world.tokens.grants["launch"] = grant
        real = hello("i-1", instance_id="i-1")
        _, answer = await say_hello(world, real, token="launch", credential="of i-1")
        assert isinstance(answer, Welcome)

    play(scenario)


def test_names_cannot_be_invented_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_AGENTS", 3)

    async def scenario(world: AgentsWorld) -> None:
        for n in range(3):
            await say_hello(world, hello(f"n{n}"), credential=f"of n{n}")
        _, answer = await say_hello(world, hello("n3"), credential="of n3")
        assert isinstance(answer, JoinRefused)
        assert "there are 3 agents" in answer.reason
        assert len(world.store.records) == 3
        _, answer = await say_hello(
            world, hello("n2", boot_id="evil"), token="", credential="of n2"
        )
        assert isinstance(answer, Welcome)

    play(scenario)


def test_slots_cannot_be_invented_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_ALL_SLOTS", 9)

    async def scenario(world: AgentsWorld) -> None:
        agent, _ = await working(world)
        many = tuple(Slot(id=n, kind=SlotKind.CPU) for n in range(6))
        _, answer = await say_hello(world, hello("a9", slots=many), credential="of a9")
        assert isinstance(answer, JoinRefused)
        assert "other agents have 4 slots of at most 9" in answer.reason
        monkeypatch.setattr(admission, "MAX_ALL_SLOTS", 1)
        await agent.drop()
        await agent.until(lambda: agent.connected)  # who is known has its place
        monkeypatch.setattr(admission, "MAX_ALL_SLOTS", 9)
        _, answer = await say_hello(world, hello("a9", slots=many[:5]), credential="of a9")
        assert isinstance(answer, Welcome)

    play(scenario)


def exited(container_id: str, allocation_id: str) -> ContainerReport:
    return ContainerReport(
        container_id=container_id,
        allocation_id=allocation_id,
        state=ContainerState.EXITED,
        exit=ExitRecord(exit_code=0, at=AT),
    )


def batch(container_id: str, allocation_id: str, task_id: str, first: int = 0) -> LogBatch:
    return LogBatch(
        container_id=container_id,
        allocation_id=allocation_id,
        task_id=task_id,
        agent_id="a1",
        first_offset=first,
        next_offset=first + 100,
        entries=(LogEntry(timestamp=AT, stdtype="stdout", log="forged"),),
    )


def test_no_agent_reports_or_logs_for_containers_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: AgentsWorld) -> None:
        _, mine = await working(world, 1)
        _, theirs = await working(world, 2)
        c1, c2 = mine.container_id, theirs.container_id
        for forged in (
            exited(c2, "task-2.1"),
            exited("made-up", "task-2.1"),
            exited(c1, "task-2.1"),
            exited(c1, "no-such.1"),
            batch(c2, "task-2.1", "task-2"),
            batch("made-up", "task-2.1", "task-2"),
            batch(c1, "task-2.1", "task-2"),
            batch(c1, "task-1.1", "task-2"),
            batch(c1, "no-such.1", "task-2"),
        ):
            listed = ContainerReport(
                container_id=c1, allocation_id="task-1.1", state=ContainerState.RUNNING
            )
            again = hello(
                boot_id="boot-1", slots=world.agents["a1"]._hello().slots, containers=(listed,)
            )
            world.agents["a1"].reconnect_s = 10_000
            channel, answer = await say_hello(world, again, token="", credential="of a1")
            assert isinstance(answer, Welcome)
            await channel.send(forged)
            said = await until_closed(channel)
            assert not [m for m in said if isinstance(m, ForgetContainer | LogAck)], forged
            assert "the agent spoke of container" in channel.closed_because
            assert channel.closed_because in caplog.text
            assert untouched(world, 1)
            assert untouched(world, 2)
        assert world.logs.lines == []

    play(scenario)


def test_containers_of_others_in_a_hello_are_not_kept() -> None:
    async def scenario(world: AgentsWorld) -> None:
        _, theirs = await working(world, 2)
        message = hello("a9", containers=(exited(theirs.container_id, "task-2.1"),))
        channel, answer = await say_hello(world, message, credential="of a9")
        assert isinstance(answer, Welcome)
        assert answer.keep == ()
        twice = hello("a9", containers=message.containers * 2, boot_id="evil")
        await channel.close()
        _, answer = await say_hello(world, twice, credential="of a9")
        assert isinstance(answer, JoinRefused)
        assert "listed twice" in answer.reason
        await world.settle(60)
        assert untouched(world, 2)

    play(scenario)


def test_what_comes_late_of_an_agents_own_container_is_dropped_and_acknowledged() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent, container = await working(world)
        agent.log(container.container_id, "in time")
        await agent.until(lambda: not agent.unacked)
        agent.exit(container.container_id)
        await world.master.ended("task-1.1")
        await agent.until(lambda: bool(sent_to(agent, ForgetContainer)))
        late = batch(container.container_id, "task-1.1", "task-1", first=27)
        agent._say(late)
        agent._say(exited(container.container_id, "task-1.1"))
        await agent.until(lambda: late.next_offset in acknowledged(agent))
        await world.settle(60)
        assert agent.connected
        assert world.logs.lines == ["in time"]

    play(scenario)


def acknowledged(agent: FakeAgent) -> list[int]:
    return [m.next_offset for m in agent.received if isinstance(m, LogAck)]


def test_what_ended_before_a_restart_of_the_master_may_still_be_spoken_of() -> None:
    async def scenario(world: AgentsWorld) -> None:
        one, two = await world.add_agent("a1"), await world.add_agent("a2")
        wanted = allocation(1, slots=8)
        grant = await world.run_allocation(wanted)
        ended, goes_on = grant.containers
        record = RestoreRecord(
            request=wanted,
            containers=grant.containers,
            started=True,
            ended_containers=frozenset({ended.container_id}),
        )
        await world.restart([record])
        agent = one if ended.agent_id == "a1" else two
        await agent.until(lambda: agent.connected)
        agent._say(exited(ended.container_id, "task-1.1"))
        agent._say(batch(ended.container_id, "task-1.1", "task-1"))
        await world.settle(60)
        assert agent.connected
        other = two if agent is one else one
        await other.until(lambda: other.connected)
        other.exit(goes_on.container_id)
        await world.master.ended("task-1.1")

    play(scenario)


def test_a_huge_epoch_shuts_out_only_who_says_it() -> None:
    async def scenario(world: AgentsWorld) -> None:
        victim, _ = await working(world)
        for epoch in (world.epoch + 1, 2**62):
            _, answer = await say_hello(world, hello("a9", highest_epoch=epoch), credential="of a9")
            assert isinstance(answer, JoinRefused)
            assert "newer master" in answer.reason
        assert victim.connected
        await world.restart()
        await victim.until(lambda: not victim.connected)
        await victim.until(lambda: victim.connected)

    play(scenario)


@pytest.mark.parametrize("at", [FIRST_MOMENT, AT, LAST_MOMENT])
def test_the_ends_of_the_calendar_stop_nobody(at: datetime) -> None:
    async def scenario(world: AgentsWorld) -> None:
        await working(world)
        leaving = Leaving(at=at, reason="so it \x1b[2Jsays\n")
        message = hello("a9", ends_at=at, leaving=leaving)
        channel, answer = await say_hello(world, message, credential="of a9")
        assert isinstance(answer, Welcome)
        await channel.send(leaving)
        await world.settle(20)
        (note,) = world.backend.observer.agent("a9").notes
        assert note == f"goes at {at.isoformat()}: so it \\x1b[2Jsays "
        assert [view.id for view in world.backend.observer.agents()] == ["a1", "a9"]
        assert untouched(world)

    play(scenario)


def test_an_agent_that_floods_waits_and_nobody_else_does() -> None:
    async def scenario(world: AgentsWorld) -> None:
        victim, container = await working(world)
        channel, _ = await say_hello(world, hello("a9"), credential="of a9")
        started = world.clock.monotonic()
        flood = [Leaving(at=LAST_MOMENT.replace(year=2199 - n), reason="again") for n in range(100)]
        for message in (*(Heartbeat() for _ in range(1000)), *flood):
            await channel.send(message)
        victim.log(container.container_id, "still here")
        await victim.until(lambda: not victim.unacked)
        victim.exit(container.container_id)
        await world.master.ended("task-1.1")
        assert world.clock.monotonic() - started < 5.0, "of virtual time"
        assert len(channel.peer._inbox) > 900, "what it said is not even read"
        await world.settle(300)
        assert not channel.peer._inbox

    play(scenario)


def test_slots_of_a_refused_hello_are_never_listed() -> None:
    async def scenario(world: AgentsWorld) -> None:
        slots = (Slot(id=0, kind=SlotKind.CPU),) * 2
        _, answer = await say_hello(world, hello(slots=slots), credential="of a1")
        assert isinstance(answer, JoinRefused)
        assert world.backend.observer.agents() == ()
        assert not [m for m in world.channels[0]._inbox if isinstance(m, StartContainer)]

    play(scenario)
