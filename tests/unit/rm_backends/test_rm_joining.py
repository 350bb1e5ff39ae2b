"""Who may be which agent: join tokens, credentials, and those who found either."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rm_backends.agents.connections.joining import credential_hash
from rm_backends.agents.registry import FORGET_AWAY_S
from rm_backends.base import RestoreRecord
from rm_backends.ports import JoinGrant, JoinKind
from tests.fakes.agents_world import AgentsWorld, Machines, agents_world, allocation
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run

HOUR = timedelta(hours=1)


async def refused(world: AgentsWorld, agent: FakeAgent) -> str:
    """Why the master does not take it."""
    task = world.tasks.create_task(agent.run())
    await agent.until(lambda: agent.refused is not None or agent.connected)
    reason = agent.refused.reason if agent.refused is not None else ""
    await agent.die()
    await task
    return reason


def launch(
    world: AgentsWorld, *names: str, agents: int | None = None, pool: str = "default"
) -> str:
    """The token of a launch of these machines, for an hour."""
    token = f"launch-{len(world.tokens.grants)}"
    world.tokens.grants[token] = JoinGrant(
        kind=JoinKind.LAUNCH,
        pool=pool,
        id=token,
        names=frozenset(names),
        agents=agents or len(names),
        expires=world.clock.now() + HOUR,
    )
    return token


def provide(world: AgentsWorld, machines: Machines) -> None:
    world.nodes.connect(
        wake=lambda: None,
        capacity=lambda _: None,
        note_agent=lambda *_: None,
        machines=machines,
    )


def machine(
    world: AgentsWorld, name: str, token: str, credential: str = "own", **more: str
) -> FakeAgent:
    options = {"instance_id": name} | more
    return world.new_agent(name, token=token, credential=f"{credential} of {name}", **options)


def test_a_token_of_the_pool_cannot_pose_as_an_agent_that_has_a_credential() -> None:
    async def main() -> None:
        async with agents_world() as world:
            agent = await world.add_agent("a1", credential="its own")
            grant = await world.run_allocation(allocation(1))
            await agent.unplug()
            for credential in ("", "another"):
                thief = world.new_agent("a1", credential=credential, boot_id="boot-2")
                assert "join-token create default --agent a1" in await refused(world, thief)
            agent.plug_in()
            await agent.until(lambda: agent.connected)
            assert world.master.phases(grant.allocation_id)[-1] == "RUNNING"

    run(main())


def test_a_credential_is_enough_and_outlives_the_master() -> None:
    async def main() -> None:
        async with agents_world() as world:
            agent = await world.add_agent("a1", credential="its own")
            await agent.die()
            await world.restart()
            back = world.new_agent("a1", token="", credential="its own")
            assert await refused(world, back) == ""
            stored = world.store.records["a1"].credential_hash
            assert stored == credential_hash("its own")
            assert "its own" not in repr(world.store.records)

    run(main())


def test_a_credential_is_of_one_agent_in_one_pool() -> None:
    async def main() -> None:
        async with agents_world(resolved_pool("default"), resolved_pool("other")) as world:
            await (await world.add_agent("a1", credential="its own")).unplug()
            other_id = world.new_agent("a2", token="", credential="its own")
            assert "not the credential of agent 'a2'" in await refused(world, other_id)
            other_pool = world.new_agent("a1", token="", credential="its own", pool="other")
            assert "joined pool 'default'" in await refused(world, other_pool)
            other_instance = world.new_agent("a1", token="", credential="its own", instance_id="a1")
            assert "needs a join token" in await refused(world, other_instance)
            with_token = world.new_agent("a1", credential="its own", pool="other")
            assert await refused(world, with_token) == ""

    run(main())


def test_an_agent_of_the_release_before_comes_back_with_its_work_and_is_bound_once_it_is_updated() -> (
    None
):
    async def main() -> None:
        async with agents_world() as world:
            old = await world.add_agent("a1")
            wanted = allocation(1)
            grant = await world.run_allocation(wanted)
            record = RestoreRecord(request=wanted, containers=grant.containers, started=True)
            await world.restart([record])
            await old.until(lambda: not old.connected)
            await old.until(lambda: old.connected)
            await world.settle(60.0)
            assert world.store.records["a1"].credential_hash is None
            assert world.master.losses(wanted.allocation_id) == []
            assert world.master.phases(wanted.allocation_id)[-1] == "RUNNING"
            (container,) = grant.containers
            old.exit(container.container_id)
            await world.master.ended(wanted.allocation_id)
            await old.die()
            await world.settle()
            assert await refused(world, world.new_agent("a1", credential="its own")) == ""
            assert world.store.records["a1"].credential_hash == credential_hash("its own")

    run(main())


def test_a_launch_token_joins_each_of_its_machines_once() -> None:
    async def main() -> None:
        async with agents_world(resolved_pool("default"), resolved_pool("other")) as world:
            token = launch(world, "m-0", "m-1")
            assert "not for agent 'm-2'" in await refused(world, machine(world, "m-2", token))
            nameless = machine(world, "m-0", token, instance_id="")
            nameless.instance_id = None
            assert "called as their instances" in await refused(world, nameless)
            other_pool = machine(world, "m-0", token, pool="other")
            assert "not valid for pool 'other'" in await refused(world, other_pool)
            assert "update the agent" in await refused(
                world, world.new_agent("m-0", token=token, instance_id="m-0")
            )
            assert await refused(world, machine(world, "m-0", token)) == ""
            assert await refused(world, machine(world, "m-0", token)) == "", (
                "its answer may be lost"
            )
            assert "was spent" in await refused(world, machine(world, "m-0", token, "thief"))
            await world.nodes.instance_gone("m-0", "its instance ended")
            assert "was spent" in await refused(world, machine(world, "m-0", token, "thief"))
            await world.restart()
            assert "was spent" in await refused(world, machine(world, "m-0", token, "thief"))
            await world.settle(3600.0)
            assert "expired at" in await refused(world, machine(world, "m-1", token))

    run(main())


def test_a_launch_whose_machines_have_no_names_yet_counts_them() -> None:
    async def main() -> None:
        async with agents_world() as world:
            token = launch(world, agents=2)
            provide(world, Machines({token: frozenset({"m-0", "m-1", "m-2"})}))
            await (await world.add_agent("known", credential="its own")).unplug()
            assert "another credential" in await refused(
                world, world.new_agent("known", token=token, credential="x", instance_id="known")
            )
            for name in ("m-0", "m-1"):
                assert await refused(world, machine(world, name, token)) == ""
            assert "2 agents joined" in await refused(world, machine(world, "m-2", token))

    run(main())


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_token_of_a_launch_is_good_for_its_own_machines_once_and_for_an_hour(cloud: str) -> None:
    """GCP's machines have names before they exist, AWS's when the launch has been answered."""

    async def main() -> None:
        async with agents_world() as world:
            ours, others = ("m-0", "m-1"), ("x-0", "x-1")
            token, other = (
                launch(world, *(names if cloud == "gcp" else ()), agents=2)
                for names in (ours, others)
            )
            provide(world, Machines({token: frozenset(ours), other: frozenset(others)}))
            foreign = "not for agent 'x-0'" if cloud == "gcp" else "is no machine of launch"
            assert foreign in await refused(world, machine(world, "x-0", token))
            claims = machine(world, "m-1", token, instance_id="m-0")
            assert "of instance 'm-0' must be called so" in await refused(world, claims)
            assert await refused(world, machine(world, "m-0", token)) == ""
            stolen = machine(world, "m-0", token, "thief")
            assert "was spent" in await refused(world, stolen)
            assert "token" in await refused(world, machine(world, "m-1", "launch-of-nobody"))
            assert "m-1" not in world.store.records
            await world.settle(3601.0)
            assert "expired at" in await refused(world, machine(world, "m-1", token))
            assert "m-1" not in world.store.records

    run(main())


def test_a_token_made_for_an_agent_replaces_a_lost_credential_once() -> None:
    async def main() -> None:
        async with agents_world() as world:
            await (await world.add_agent("a1", credential="lost")).unplug()
            await world.settle()
            world.tokens.grants["fresh"] = JoinGrant(
                pool="default", id="operator-1", names=frozenset({"a1"}), agents=1
            )
            again = world.new_agent("a1", token="fresh", credential="new")
            assert await refused(world, again) == ""
            thief = world.new_agent("a1", token="fresh", credential="thief")
            assert "was spent" in await refused(world, thief)
            old = world.new_agent("a1", credential="lost")
            assert "another credential" in await refused(world, old)

    run(main())


def test_with_its_credential_a_hello_replaces_a_half_open_connection() -> None:
    async def main() -> None:
        async with agents_world() as world:
            first = await world.add_agent("a1", credential="its own")
            first._online = False  # it will not dial again once its connection is closed
            again = world.new_agent("a1", credential="its own")
            assert await refused(world, again) == ""
            await first.die()

    run(main())


def test_nobody_takes_the_instance_of_another() -> None:
    async def main() -> None:
        async with agents_world() as world:
            evil = world.new_agent("evil", credential="x", instance_id="m-0")
            assert "must be called so" in await refused(world, evil)

    run(main())


def test_neither_tokens_nor_credentials_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        caplog.set_level("DEBUG")
        async with agents_world() as world:
            token = launch(world, "m-0")
            reasons = [
                await refused(world, machine(world, name, token, "credential"))
                for name in ("m-0", "m-1")
            ]
            reasons.append(
                await refused(world, world.new_agent("m-0", token="guessed", credential="g"))
            )
        said = "".join([*reasons, caplog.text])
        assert "agent refused: m-1" in said
        for secret in (token, "credential of m-0", "credential of m-1", "guessed"):
            assert secret not in said

    run(main())


def test_a_machine_whose_launch_is_not_answered_asks_again() -> None:
    """AWS names machines in its answer: one may boot before that has arrived."""

    async def main() -> None:
        async with agents_world() as world:
            machines = Machines()
            provide(world, machines)
            token = launch(world, agents=1)
            early = machine(world, "i-1", token)
            assert "has not said yet" in await refused(world, early)
            assert early.refused is not None
            assert early.refused.retry
            machines.made[token] = frozenset({"i-1"})
            assert await refused(world, machine(world, "i-1", token)) == ""

    run(main())


def test_the_token_of_a_launch_is_for_the_machines_that_it_made() -> None:
    async def main() -> None:
        async with agents_world() as world:
            machines = Machines({"launch-0": frozenset({"i-1"}), "launch-9": frozenset({"i-9"})})
            provide(world, machines)
            token = launch(world, agents=2)
            for name in ("i-9", "i-2"):
                thief = machine(world, name, token)
                assert "is no machine of launch launch-0" in await refused(world, thief)
                assert thief.refused is not None
                assert not thief.refused.retry

    run(main())


def test_the_agent_of_a_stopped_machine_is_remembered_and_joins_again_by_its_credential() -> None:
    async def main() -> None:
        async with agents_world() as world:
            token = launch(world, "i-1", "i-2")
            machines = Machines({token: frozenset({"i-1", "i-2"})}, {"i-1"})
            provide(world, machines)
            for name in ("i-1", "i-2"):
                assert await refused(world, machine(world, name, token)) == ""
            await world.settle(2 * FORGET_AWAY_S)
            assert set(world.store.records) == {"i-1"}, "the other did not come back"
            assert await refused(world, machine(world, "i-1", "")) == ""

    run(main())
