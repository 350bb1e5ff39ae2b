"""Agents that an operator forgets: what they ran, and what their ids and credentials are worth then."""

from __future__ import annotations

import pytest

from agent_bootstrap.protocol import (
    JoinRefused,
    Welcome,
)
from rm_backends.base import RestoreRecord
from tests.fakes.actors import ADMIN
from tests.fakes.agents_world import (
    AgentsWorld,
    allocation,
)
from tests.fakes.posing_agents import hello, play, say_hello, untouched, working
from windlass.base.errors import Conflict, NotFound, StoreUnavailable


def test_a_forgotten_agent_loses_its_work_and_its_id_is_free_for_a_new_credential() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent, _ = await working(world)
        with pytest.raises(Conflict, match="is connected: stop it first, or use --force"):
            await world.backend.operator.forget_agent("a1", force=False, by=ADMIN)
        assert untouched(world)
        await agent.unplug()
        await world.settle()
        world.store.failure = StoreUnavailable("the disk is full")
        with pytest.raises(StoreUnavailable):
            await world.backend.operator.forget_agent("a1", force=False, by=ADMIN)
        assert untouched(world)
        world.store.failure = None
        await world.backend.operator.forget_agent("a1", force=False, by=ADMIN)
        assert "a1" not in world.store.records
        assert "forgotten by an operator" in await world.master.lost("task-1.1")
        with pytest.raises(NotFound):
            await world.backend.operator.forget_agent("a1", force=False, by=ADMIN)
        _, answer = await say_hello(world, hello(), token="", credential="of a1")
        assert isinstance(answer, JoinRefused), "the old credential is worth nothing any more"
        _, answer = await say_hello(world, hello(), credential="new")
        assert isinstance(answer, Welcome)

    play(scenario)


def test_a_crash_while_an_agent_is_forgotten_leaves_it_forgotten() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent, container = await working(world)
        await agent.unplug()
        await world.store.remove("a1")  # and then the master dies
        wanted = allocation(1, slots=4)
        await world.restart([RestoreRecord(request=wanted, containers=(container,), started=True)])
        assert await world.master.lost("task-1.1") == "agent a1 is gone"
        agent.plug_in()
        await agent.until(lambda: agent.connected)
        await world.settle()
        assert agent.containers == {}, "it is told that nobody wants its work any more"

    play(scenario)


def test_by_force_an_agent_with_a_stolen_credential_is_thrown_out() -> None:
    async def scenario(world: AgentsWorld) -> None:
        thief, _ = await working(world)
        thief.reconnect_s = 10_000
        channel = world.channels[0]
        await world.backend.operator.forget_agent("a1", force=True, by=ADMIN)
        assert "forgotten by an operator" in await world.master.lost("task-1.1")
        await world.settle(60)
        assert "forgotten by an operator" in channel.closed_because
        assert world.store.records == {}
        _, answer = await say_hello(world, hello(), token="", credential="of a1")
        assert isinstance(answer, JoinRefused)

    play(scenario)
