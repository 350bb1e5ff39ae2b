"""Agents that say hello to pools in memory as whoever they like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agent_bootstrap.protocol import (
    ChannelClosed,
    Hello,
    Message,
)
from rm_backends.base import Container
from tests.fakes.agents_world import (
    TOKEN,
    AgentsWorld,
    agents_world,
    allocation,
)
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.memory_channel import MemoryChannel
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run

POOLS = (resolved_pool("default"), resolved_pool("other"))
Scenario = Callable[[AgentsWorld], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            await scenario(world)

    run(main(), limit_s=24 * 3600)


def hello(agent_id: str = "a1", **more: Any) -> Hello:
    return Hello(
        **{"version": "1", "agent_id": agent_id, "pool": "default", "boot_id": "evil", **more}
    )


async def say_hello(
    world: AgentsWorld, message: Hello, *, token: str = TOKEN, credential: str = ""
) -> tuple[MemoryChannel, Message]:
    """A scripted agent's connection, and what the master answered."""
    channel = world.connect(pool=message.pool, token=token, credential=credential)
    await channel.send(message)
    return channel, await channel.receive()


async def working(world: AgentsWorld, number: int = 1) -> tuple[FakeAgent, Container]:
    """An agent with a credential, and what runs on it."""
    agent = await world.add_agent(f"a{number}", credential=f"of a{number}")
    (container,) = (await world.run_allocation(allocation(number, slots=4))).containers
    return agent, container


async def until_closed(channel: MemoryChannel) -> list[Message]:
    """What was still said, and the reason in `channel.closed_because`."""
    said = []
    try:
        while True:
            said.append(await channel.receive())
    except ChannelClosed:
        return said


def untouched(world: AgentsWorld, number: int = 1) -> bool:
    id_ = f"task-{number}.1"
    return world.master.phases(id_)[-1] == "RUNNING" and world.master.losses(id_) == []
