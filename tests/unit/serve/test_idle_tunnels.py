"""Tunnels over which nothing goes for an hour, whatever the reason: they stay.

From a port here by our own client to the master's server, and from the agent to the task, there are real sockets. All
is on virtual time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from agent_bootstrap.agent.connection.task_streams import TaskStreams
from agent_bootstrap.channels.mux import PING_S
from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.protocol import OpenStreams
from master.api.access import note_known
from master.api.proxy.websockets import to_tcp
from master.config import load
from master.serve import web_server
from tests.fakes.agents_world import AgentsWorld, agents_world, sent_to
from tests.fakes.memory_pipe import memory_pipe
from tests.fakes.virtual_time import run
from tests.real_cluster import free_port
from windlass.base.loop import Loop
from windlass.sdk.session import Session
from windlass.sdk.tunnel import _listen

HERE = "127.0.0.1"
HOUR_S = 3600
SOCKETS_S = 0.001
LARGE = 24 * 1024 * 1024
"""More than sockets and windows hold."""
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Path:
    """From a client to a task."""

    world: AgentsWorld
    port: int
    """The master's."""
    accepted: asyncio.Queue[Ends] = field(default_factory=asyncio.Queue)
    """By the task: its end of each tunnel."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    """Closed in the end."""
    frames: int = 0
    """Between master and agent."""

    @asynccontextmanager
    async def tunnel(self) -> AsyncIterator[tuple[Ends, Ends]]:
        """The user's end, by a port of this machine, and the task's."""
        local = free_port()
        told: list[str] = []
        session = Session(f"http://{HERE}:{self.port}", "token")
        server = await _listen(session, local, "t-1:22", told.append)
        user = await asyncio.open_connection(HERE, local)
        self.writers.append(user[1])
        try:
            yield user, await self.accepted.get()
        finally:
            server.close()
        assert told == [f"{HERE}:{local} leads to t-1:22"], "nothing went wrong"

    def piece(self) -> int:
        self.frames += 1
        return 1 << 20


@asynccontextmanager
async def path_to_a_task(world: AgentsWorld) -> AsyncIterator[Path]:
    path = Path(world, free_port())
    agent = await world.add_agent("a1", credential="its own", carries_streams=True)
    streams = world.shared.streams
    tasks: list[asyncio.Task[None]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        stream = await streams.open("a1", "c", 22)
        note_known(scope)
        await to_tcp(receive, send, stream)
        stream.close()

    async def accept(*ends: asyncio.StreamReader | asyncio.StreamWriter) -> None:
        path.accepted.put_nowait(taken := cast("Ends", ends))
        path.writers.append(taken[1])

    async def connect() -> Stream:
        near, far = memory_pipe(path.piece)
        tasks.append(asyncio.create_task(streams.serve(near, "a1")))
        return far

    async def node_port(container_id: str, port: int) -> int:
        return int(task.sockets[0].getsockname()[1])

    agents_end = TaskStreams(connect, node_port)

    async def open_when_asked() -> None:
        await agent.until(lambda: bool(sent_to(agent, OpenStreams)))
        agents_end.open()

    server = web_server(cast("FastAPI", app), load(None, overrides={"port": path.port}))
    server.config.load()
    state = server.server_state

    make = cast("Callable[..., asyncio.Protocol]", server.config.http_protocol_class)
    protocol = partial(make, config=server.config, server_state=state, app_state={})
    master = await asyncio.get_running_loop().create_server(protocol, HERE, path.port)
    task = await asyncio.start_server(accept, HERE, 0)
    sweeps = Loop("connections", server._table.sweep, interval_s=10.0)
    tasks += [asyncio.create_task(open_when_asked()), asyncio.create_task(sweeps.run())]
    try:
        yield path
    finally:
        for listening in (master, task):
            listening.close()
        for writer in path.writers:
            writer.transport.abort()
        await asyncio.sleep(1)  # all that was joined with them ends
        await agents_end.close()
        for one in (*tasks, *state.tasks):
            one.cancel()
        await asyncio.gather(*tasks, *state.tasks, return_exceptions=True)


async def silent(path: Path) -> None:
    async with path.tunnel() as (user, task):
        frames = path.frames
        await asyncio.sleep(HOUR_S)
        assert path.frames - frames >= 2 * HOUR_S // PING_S - 2, "the connection's ends say so"
        for (reader, _), (_, writer) in ((user, task), (task, user)):
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"


async def unread(path: Path, *, by_task: bool) -> None:
    async with path.tunnel() as (user, task):
        (reader, _), (_, writer) = (task, user) if by_task else (user, task)
        data = os.urandom(LARGE)
        writer.write(data)
        await asyncio.sleep(HOUR_S)
        assert writer.transport.get_write_buffer_size(), "it waits for its reader"
        assert await reader.readexactly(LARGE) == data


async def stopped(path: Path) -> None:
    """As the published client is while nobody takes its output: it answers no pings."""
    client = ClientProtocol(parse_uri(f"ws://{HERE}:{path.port}/proxy/t-1:22/"))
    reader, writer = await asyncio.open_connection(HERE, path.port)
    path.writers.append(writer)
    client.send_request(client.connect())
    writer.write(b"".join(client.data_to_send()))
    task_reader, task_writer = await path.accepted.get()
    await asyncio.sleep(HOUR_S)
    task_writer.write(b"hello")
    frames: list[Frame] = []
    while not frames or frames[-1].opcode is not Opcode.BINARY:
        client.receive_data(await reader.read(65536))
        frames += [one for one in client.events_received() if isinstance(one, Frame)]
    client.send_binary(frames[-1].data)
    writer.write(b"".join(client.data_to_send()))
    assert await task_reader.readexactly(5) == b"hello"


@pytest.mark.slow
def test_after_an_hour_without_a_byte_a_tunnel_goes_on() -> None:
    async def main() -> None:
        async with agents_world() as world, path_to_a_task(world) as path:
            waiting = []
            for use in (silent(path), unread(path, by_task=True), unread(path, by_task=False)):
                waiting.append(asyncio.create_task(use))
                await asyncio.sleep(1)  # each has its own end of the task then
            waiting.append(asyncio.create_task(stopped(path)))
            await asyncio.gather(*waiting)

    run(main(), limit_s=2 * HOUR_S, sockets_s=SOCKETS_S)
