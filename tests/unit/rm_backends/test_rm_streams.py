"""The connection that carries streams to tasks: opened when the first is wanted, of this agent only, gone with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from agent_bootstrap.channels.mux import CREDIT, HEAD, FrameKind, Mux
from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.protocol import OpenStreams, StreamTarget
from tests.fakes.agents_world import AgentsWorld, agents_world, sent_to
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.memory_pipe import memory_pipe
from tests.fakes.virtual_time import run

CREDENTIAL = "the agent's own"


class AgentEnd:
    """The agent's end of its connection for streams. Each stream ends after it has said where it leads."""

    def __init__(self, world: AgentsWorld, agent: FakeAgent) -> None:
        near, far = memory_pipe()
        self._mux = Mux(far, dial=self._dial)
        streams = world.shared.streams
        self.serving = world.tasks.create_task(streams.serve(near, agent.agent_id))
        self.running = world.tasks.create_task(self._mux.run())

    async def _dial(self, target: bytes) -> Stream:
        one, other = memory_pipe()
        await other.write(target)
        await other.end()
        return one


async def told(stream: Stream) -> StreamTarget:
    return StreamTarget.model_validate_json(await stream.read())


async def an_agent(world: AgentsWorld) -> FakeAgent:
    return await world.add_agent("a1", credential=CREDENTIAL, carries_streams=True)


def test_the_agent_is_asked_once_and_each_stream_goes_where_it_should() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await an_agent(world)
        streams = world.shared.streams
        opening = [
            asyncio.create_task(streams.open("a1", f"container-{n}", 8000 + n)) for n in range(2)
        ]
        await agent.until(lambda: bool(sent_to(agent, OpenStreams)))
        end = AgentEnd(world, agent)
        for n, stream in enumerate(await asyncio.gather(*opening)):
            assert await told(stream) == StreamTarget(container_id=f"container-{n}", port=8000 + n)
        await streams.open("a1", "container-1", 1)
        assert sent_to(agent, OpenStreams) == [OpenStreams(epoch=world.epoch)]
        assert not end.serving.done()

    _play(scenario)


def test_an_agent_that_sends_what_it_may_not_loses_its_own_streams_alone() -> None:
    async def scenario(world: AgentsWorld) -> None:
        bad = await an_agent(world)
        good = await world.add_agent("a2", credential="its own", carries_streams=True)
        streams = world.shared.streams
        opening = [asyncio.create_task(streams.open(name, "c", 1)) for name in ("a1", "a2")]
        await bad.until(lambda: bool(sent_to(bad, OpenStreams)))
        await good.until(lambda: bool(sent_to(good, OpenStreams)))
        near, far = memory_pipe()
        serving = world.tasks.create_task(streams.serve(near, "a1"))
        AgentEnd(world, good)
        theirs = await opening[1]
        asked = b""
        while b"container_id" not in asked:
            asked += await far.read()
        await far.write(HEAD.pack(1, FrameKind.CREDIT, CREDIT.size) + CREDIT.pack(100))
        stream = await opening[0]
        await far.write(HEAD.pack(1, FrameKind.OPEN, 0))
        with pytest.raises(ConnectionError, match="agent a1 broke: a stream that it may not open"):
            await stream.read()
        await serving
        assert bad.connected, "what controls it is another connection"
        assert await told(theirs) == StreamTarget(container_id="c", port=1)
        again = asyncio.create_task(streams.open("a1", "c", 2))
        await bad.until(lambda: len(sent_to(bad, OpenStreams)) == 2)
        AgentEnd(world, bad)
        assert await told(await again) == StreamTarget(container_id="c", port=2)

    _play(scenario)


def test_when_the_agent_is_lost_its_streams_end_and_its_next_connection_is_asked_anew() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await an_agent(world)
        streams = world.shared.streams
        opening = asyncio.create_task(streams.open("a1", "c", 1))
        await agent.until(lambda: bool(sent_to(agent, OpenStreams)))
        end = AgentEnd(world, agent)
        stream = await opening
        await told(stream)
        waiting = asyncio.create_task(stream.write(bytes(1 << 20)))
        await agent.drop()
        with pytest.raises(ConnectionError, match="agent a1 lost its connection"):
            await waiting
        await end.serving
        await agent.until(lambda: agent.connected)
        opening = asyncio.create_task(streams.open("a1", "c", 1))
        await agent.until(lambda: len(sent_to(agent, OpenStreams)) == 2)
        AgentEnd(world, agent)
        await opening

    _play(scenario)


def test_whoever_waits_is_told_why_there_is_no_stream() -> None:
    async def scenario(world: AgentsWorld) -> None:
        streams = world.shared.streams
        with pytest.raises(ConnectionError, match="agent a9 is not connected"):
            await streams.open("a9", "c", 1)
        await world.add_agent("old")
        with pytest.raises(ConnectionError, match="update it"):
            await streams.open("old", "c", 1)
        agent = await an_agent(world)
        with pytest.raises(ConnectionError, match="opens no connection for streams within 10 s"):
            await streams.open("a1", "c", 1)
        lost = asyncio.create_task(streams.open("a1", "c", 1))
        await agent.until(lambda: len(sent_to(agent, OpenStreams)) == 2)
        await agent.drop()
        with pytest.raises(ConnectionError, match="agent a1 lost its connection"):
            await lost

    _play(scenario)


def test_only_a_connected_agent_that_shows_its_credential_is_admitted() -> None:
    async def scenario(world: AgentsWorld) -> None:
        agent = await an_agent(world)
        await world.add_agent("bare")  # by its join token alone
        admits = world.shared.streams.admits
        assert admits("a1", CREDENTIAL)
        assert not admits("a1", "another")
        assert not admits("a1", "")
        assert not admits("bare", "")
        assert not admits("a2", CREDENTIAL)
        await agent.unplug()
        await world.settle()
        assert not admits("a1", CREDENTIAL)

    _play(scenario)


def _play(scenario: Callable[[AgentsWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        async with agents_world() as world:
            with suppress(asyncio.CancelledError):
                await scenario(world)

    run(main(), limit_s=3600)
