"""Joining before the agent runs, leaving after it, and the list of those that were refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agent_bootstrap.protocol import PROTOCOL_VERSION
from rm_backends.agents.connections.joining import credential_hash
from rm_backends.agents.connections.refusals import MAX_KNOWN, MAX_UNAUTHENTICATED, Refusals
from rm_backends.agents.registry import FORGET_AWAY_S
from rm_backends.ports import JoinGrant, JoinKind
from rm_backends.views import AgentStatus, JoinRequest, RefusalView
from tests.fakes.agents_world import SUBMITTED, AgentsWorld, agents_world, allocation
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run
from tests.unit.rm_backends.test_rm_joining import refused
from windlass.base.errors import Conflict, PermissionDenied

OWN = "c" * 43
POOLS = (resolved_pool("default"), resolved_pool("gpu"))


def granted(world: AgentsWorld, name: str, **grant: object) -> str:
    world.tokens.grants[name] = JoinGrant(**({"pool": "gpu", "id": name, "agents": 1} | grant))  # type: ignore[arg-type]
    return name


async def join(
    world: AgentsWorld,
    agent_id: str = "a1",
    *,
    token: str = "",
    credential: str = OWN,
    pool: str = "",
    protocol: int = PROTOCOL_VERSION,
) -> AgentStatus:
    asked = JoinRequest(agent_id=agent_id, version="9", protocol=protocol, pool=pool)
    return await world.shared.joins.join(asked, token=token, credential=credential, peer="10.1.1.1")


async def why_not(world: AgentsWorld, agent_id: str = "a1", **how: str | int) -> str:
    with pytest.raises((PermissionDenied, Conflict)) as caught:
        await join(world, agent_id, **how)  # type: ignore[arg-type]
    return caught.value.message


def test_who_has_joined_connects_without_a_token() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            standing = await join(world, token=granted(world, "once"))
            assert standing == AgentStatus(agent_id="a1", pool="gpu")
            assert world.store.records["a1"].credential_hash == credential_hash(OWN)
            await world.restart()
            agent = world.new_agent("a1", token="", credential=OWN, pool="gpu")
            assert await refused(world, agent) == ""
            assert world.store.records["a1"].slots == agent.slots

    run(main())


def test_a_machine_that_has_joined_is_known_until_its_agent_connects() -> None:
    """Also where the master's machine has been up for longer than agents of instances are remembered."""

    async def main() -> None:
        async with agents_world(*POOLS) as world:
            await world.settle(2 * FORGET_AWAY_S)
            token = granted(world, "launch", kind=JoinKind.LAUNCH, names=frozenset({"i-1"}))
            asked = JoinRequest(
                agent_id="i-1", version="9", protocol=PROTOCOL_VERSION, pool="", instance_id="i-1"
            )
            await world.shared.joins.join(asked, token=token, credential=OWN, peer="10.1.1.1")
            await world.settle(60)
            assert world.shared.joins.standing("i-1", OWN).pool == "gpu"

    run(main())


def test_joining_may_be_repeated_and_spends_nothing_then() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            once, another = granted(world, "once"), granted(world, "another")
            for token in (once, once, another, "", "wrong"):
                assert (await join(world, token=token)).pool == "gpu"
            assert [use.token_id for use in world.store.spent] == ["once"]
            agent = await world.add_agent("a1", token="", credential=OWN, pool="gpu")
            assert (await join(world, token=another)).connected
            assert len(world.store.spent) == 1
            await agent.die()

    run(main())


def test_each_wrong_token_is_told_apart() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            now = world.clock.now()
            spent = granted(world, "spent")
            await join(world, "first", token=spent, credential="f" * 43)
            expired = granted(world, "expired", expires=now - timedelta(seconds=1))
            revoked = granted(world, "revoked", revoked=now)
            foreign = granted(world, "named", names=frozenset({"a7"}))
            assert "knows no such join token" in await why_not(world, token="mistyped")
            assert "knows no such join token" in await why_not(world)
            assert "spent by agent 'first'" in await why_not(world, token=spent)
            assert "expired at" in await why_not(world, token=expired)
            assert "revoked at" in await why_not(world, token=revoked)
            assert "not for agent 'a1'" in await why_not(world, token=foreign)
            other = await why_not(world, token=granted(world, "good"), pool="default")
            assert other == "the join token is for pool 'gpu', not 'default'"
            stolen = await why_not(world, "first", token=granted(world, "good"))
            assert "has another credential" in stolen
            old = await why_not(world, token=granted(world, "good"), protocol=0)
            assert "protocol 0" in old
            assert set(world.store.records) == {"first"}

    run(main())


def test_a_token_for_many_takes_a_forgotten_machine_back() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            many = granted(world, "many", agents=None)
            for name in ("a1", "a2", "a3"):
                await join(world, name, token=many, credential=f"{name}{OWN}")
            await world.nodes.instance_gone("a1", "forgotten")
            await join(world, "a1", token=many, credential="n" * 43)
            assert "another credential" in await why_not(world, "a2", token=many)

    run(main())


def test_an_agent_that_leaves_is_forgotten_once_it_runs_nothing() -> None:
    async def main() -> None:
        async with agents_world() as world:
            agent = await world.add_agent("a1", credential=OWN)
            grant = await world.run_allocation(allocation(1))
            joins = world.shared.joins
            with pytest.raises(PermissionDenied, match="not the credential"):
                await joins.leave("a1", "x" * 43, stop=True)
            with pytest.raises(PermissionDenied, match="not the credential"):
                joins.standing("a1", "")
            left = await joins.leave("a1", OWN, stop=False)
            assert (left.member, left.containers) == (True, 1)
            (view,) = world.backend.observer.agents()
            assert view.draining
            left = await joins.leave("a1", OWN, stop=True)
            await world.master.ended(grant.allocation_id)
            await world.settle()
            left = await joins.leave("a1", OWN, stop=False)
            assert left.member is False
            assert world.store.records == {}
            await agent.die()

    run(main())


def test_who_was_refused_is_listed_until_it_is_taken() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            for _ in range(3):
                stranger = world.shared.gateway.unauthenticated_reason(
                    pool="gpu", agent_id="a1", token="wrong", peer="10.1.1.1"
                )
                assert "not valid for pool 'gpu'" in stranger
            await world.settle()
            old = world.new_agent("a1", credential=OWN, pool="gpu", protocol=7)
            assert "protocol 7" in await refused(world, old)
            spent = world.shared.refusals.all()
            assert [(r.agent_id, r.address, r.times) for r in spent] == [
                ("a1", "10.9.9.9", 1),
                ("a1", "10.1.1.1", 3),
            ]
            assert await refused(world, world.new_agent("a1", credential=OWN, pool="gpu")) == ""
            assert world.shared.refusals.all() == ()

    run(main())


def test_strangers_push_out_only_each_other() -> None:
    refusals = Refusals()

    def one(name: str, number: int) -> RefusalView:
        at = SUBMITTED + timedelta(seconds=number)
        return RefusalView(
            agent_id=name, pool="p" * 999, address="x", reason="r" * 9999, first=at, last=at
        )

    refusals.note(one("known", 0), unauthenticated=False)
    for number in range(10 * MAX_KNOWN):
        refusals.note(one(f"stranger-{number}", number), unauthenticated=True)
    listed = refusals.all()
    assert len(listed) == MAX_UNAUTHENTICATED + 1
    assert listed[-1].agent_id == "known"
    assert max(len(r.pool) + len(r.reason) for r in listed) < 1300
