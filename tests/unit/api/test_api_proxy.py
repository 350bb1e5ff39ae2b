"""The proxy in front of a real control plane: who gets through to a task, and what keeps it from being idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from starlette.types import Message
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from agent_bootstrap.channels.mux import Mux
from agent_bootstrap.channels.streams import Stream
from agent_bootstrap.protocol import OpenStreams, StreamTarget
from master.api.proxy import websockets
from master.api.proxy.activity import EVERY_S, NotedTraffic
from master.auth.actions import Action
from master.tasks.live import LiveTask
from master.tasks.state import TaskPhase
from tests.fakes.agents_world import sent_to
from tests.fakes.api_world import ApiWorld
from tests.fakes.memory_pipe import PipeEnd, memory_pipe
from tests.unit.api.test_api_interactive import NOTEBOOKS, live_of, running
from windlass.base.clock import ManualClock

CREDENTIAL = "the agent's own"
HTTP, TCP = 7001, 7002
IDLE_S = 600
LIMIT_S = 60


def socket_scope(path: str, token: str = "") -> dict[str, Any]:
    """Of a WebSocket."""
    return {
        "type": "websocket",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "ws",
        "root_path": "",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("master", 80),
        "headers": [(b"host", b"master"), (b"authorization", f"Bearer {token}".encode())],
        "extensions": {"websocket.http.response": {}},
        "subprotocols": [],
        "state": {},
    }


class TaskPorts:
    """The agent's end of its connection for streams: each stream leads to the far end of a pipe, by its port."""

    def __init__(self) -> None:
        self.dialled: asyncio.Queue[tuple[int, PipeEnd]] = asyncio.Queue()

    async def dial(self, target: bytes) -> Stream:
        near, far = memory_pipe()
        self.dialled.put_nowait((StreamTarget.model_validate_json(target).port, far))
        return near


@dataclass
class Proxied:
    world: ApiWorld
    live: LiveTask
    ports: TaskPorts

    @asynccontextmanager
    async def connected(
        self, port: int, kind: str, method: str = "GET"
    ) -> AsyncIterator[tuple[Client, PipeEnd]]:
        """A client of that port, and the task's end of its connection."""
        client = Client()
        scope = socket_scope(f"/proxy/{self.live.id}:{port}/", self.world.token)
        if kind == "http":
            scope |= {"type": "http", "scheme": "http", "method": method}
            if method == "POST":
                scope["headers"].append((b"transfer-encoding", b"chunked"))
        if kind == "websocket":
            client.say({"type": "websocket.connect"})
        async with asyncio.timeout(LIMIT_S):
            app = asyncio.create_task(self.world.app(scope, client.receive, client.send))
            found, task_end = await self.ports.dialled.get()
            try:
                assert found == port
                yield client, task_end
            finally:
                client.say({"type": f"{kind}.disconnect"})
                task_end.close()
                await app

    async def is_idle_after(self, seconds: float) -> bool:
        self.world.clock.advance(seconds)
        await self.world.services.tasks.roots.tick()
        return self.live.state.phase is not TaskPhase.ACTIVE


class Client:
    """What a server is to an application: `said` to it, and what it answers, in order."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self.answers: asyncio.Queue[Message] = asyncio.Queue()

    def say(self, message: Message) -> None:
        self._said.put_nowait(message)

    async def receive(self) -> Message:
        return await self._said.get()

    async def send(self, message: Message) -> None:
        self.answers.put_nowait(message)

    async def answered(self, kind: str) -> Message:
        while (message := await self.answers.get())["type"] != kind:
            pass
        return message


@pytest.fixture
async def proxied(world: ApiWorld) -> AsyncIterator[Proxied]:
    """A notebook that may be idle for `IDLE_S`, with two ports of its user's."""
    agent = await world.add_agent(credential=CREDENTIAL, carries_streams=True)
    asked = [{"proxy_port": HTTP}, {"proxy_port": TCP, "proxy_tcp": True}]
    config = {"idle_timeout": f"{IDLE_S}s", "environment": {"proxy_ports": asked}}
    made = await world.ok("POST", NOTEBOOKS, {"config": config})
    await running(world, made["notebook"]["id"])
    ports = TaskPorts()

    async def lead() -> None:
        await agent.until(lambda: bool(sent_to(agent, OpenStreams)))
        near, far = memory_pipe()
        world.tasks.create_task(world.services.streams.serve(near, agent.agent_id))
        await Mux(far, dial=ports.dial).run()

    leading = asyncio.create_task(lead())
    yield Proxied(world, live_of(world, made["notebook"]["id"]), ports)
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)


async def read(end: PipeEnd, last: bytes) -> bytes:
    came = b""
    while not came.endswith(last):
        came += await end.read()
    return came


async def test_a_websocket_keeps_a_task_alive_while_bytes_move_and_no_longer(
    proxied: Proxied,
) -> None:
    async with proxied.connected(TCP, "websocket") as (client, task):
        await client.answered("websocket.accept")
        assert not await proxied.is_idle_after(IDLE_S - 1)
        client.say({"type": "websocket.receive", "bytes": b"from the client"})
        await read(task, b"from the client")
        assert not await proxied.is_idle_after(IDLE_S - 1)
        await task.write(b"from the task")
        assert (await client.answered("websocket.send"))["bytes"] == b"from the task"
        assert not await proxied.is_idle_after(IDLE_S - 1)
        assert await proxied.is_idle_after(1), "it is open, and silent"


async def test_a_long_answer_keeps_a_task_alive(proxied: Proxied) -> None:
    async with proxied.connected(HTTP, "http") as (client, task):
        client.say({"type": "http.request", "body": b"", "more_body": False})
        await read(task, b"\r\n\r\n")
        await task.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        await client.answered("http.response.start")
        for _ in range(3):
            assert not await proxied.is_idle_after(IDLE_S - 1)
            await task.write(b"x")
            assert (await client.answered("http.response.body"))["body"] == b"x"
        assert await proxied.is_idle_after(IDLE_S)


async def test_a_long_upload_keeps_a_task_alive(proxied: Proxied) -> None:
    async with proxied.connected(HTTP, "http", "POST") as (client, task):
        await read(task, b"\r\n\r\n")
        for _ in range(3):
            assert not await proxied.is_idle_after(IDLE_S - 1)
            client.say({"type": "http.request", "body": b"part", "more_body": True})
            await read(task, b"4\r\npart\r\n")
        assert await proxied.is_idle_after(IDLE_S)


class TaskSocket:
    """The task's end of a WebSocket."""

    def __init__(self, end: PipeEnd) -> None:
        self._end = end
        self.protocol = ServerProtocol(max_size=None)

    async def accept(self) -> None:
        while not (events := self.protocol.events_received()):
            self.protocol.receive_data(await self._end.read())
        assert isinstance(events[0], Request)
        self.protocol.send_response(self.protocol.accept(events[0]))
        await self.flush()

    async def flush(self) -> None:
        await self._end.write(b"".join(self.protocol.data_to_send()))

    async def events(self) -> list[Frame]:
        self.protocol.receive_data(await self._end.read())
        assert self.protocol.parser_exc is None
        return [event for event in self.protocol.events_received() if isinstance(event, Frame)]

    async def message(self) -> bytes:
        while True:
            for event in await self.events():
                if event.opcode is Opcode.BINARY:
                    return bytes(event.data)


class Halting(PipeEnd):
    """An end of a pipe that stops in the middle of a long write until it may go on, as for want of credit."""

    def __init__(self, end: PipeEnd) -> None:
        super().__init__(lambda: 1 << 20)
        self.other, end.other.other = end.other, self
        self.may_go_on = asyncio.Event()

    async def write(self, data: bytes) -> None:
        first, rest = data[:1000], data[1000:]
        await super().write(first)
        if rest:
            await self.may_go_on.wait()
            await super().write(rest)


async def test_pings_of_a_task_do_not_tear_apart_what_a_client_sends() -> None:
    near, far = memory_pipe()
    stream = Halting(near)
    client, task = Client(), TaskSocket(far)
    client.say({"type": "websocket.connect"})
    bridge = websockets.Bridge(socket_scope("/proxy/x/"), client.receive, client.send, stream)
    async with asyncio.timeout(LIMIT_S):
        carrying = asyncio.create_task(bridge.run())
        await task.accept()
        long = Random("long").randbytes(5000)
        client.say({"type": "websocket.receive", "bytes": long})
        assert await task.events() == [], "a part of it has come"
        task.protocol.send_ping(b"there?")
        await task.flush()
        await asyncio.sleep(0.05)  # for a pong that may not come now
        stream.may_go_on.set()
        assert await task.message() == long
        far.close()
        await carrying


async def test_pings_are_no_use_of_a_service(proxied: Proxied) -> None:
    async with proxied.connected(HTTP, "websocket") as (client, end):
        task = TaskSocket(end)
        await task.accept()
        await client.answered("websocket.accept")
        assert not await proxied.is_idle_after(IDLE_S - 1)
        task.protocol.send_ping(b"there?")
        await task.flush()
        while not any(event.opcode is Opcode.PONG for event in await task.events()):
            pass
        assert await proxied.is_idle_after(1)


async def test_a_message_of_a_task_that_is_too_long_to_be_held_closes_the_socket(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websockets, "MAX_FROM_TASK_BYTES", 1 << 20)
    async with proxied.connected(HTTP, "websocket") as (client, end):
        task = TaskSocket(end)
        await task.accept()
        task.protocol.send_binary(bytes(1 << 20))
        await task.flush()
        assert len((await client.answered("websocket.send"))["bytes"]) == 1 << 20
        for n in range(3):
            send = task.protocol.send_continuation if n else task.protocol.send_binary
            send(bytes(1 << 19), fin=False)
        await task.flush()
        closed = await client.answered("websocket.close")
    assert (closed["code"], closed["reason"]) == (
        1009,
        "the task sent a message of more than 1 MiB",
    )


async def test_traffic_is_noted_once_a_second_however_small_its_pieces() -> None:
    clock, noted = ManualClock(), []
    client = Client()
    traffic = NotedTraffic(
        client.receive, client.send, clock=clock, note=lambda: noted.append(clock.monotonic())
    )
    for _ in range(40):
        await traffic.send({"type": "websocket.send", "bytes": b"x"})
        client.say({"type": "websocket.receive", "text": "x"})
        await traffic.receive()
        clock.advance(EVERY_S / 10)
    assert len(noted) <= 4 / EVERY_S + 1
    assert all(b - a >= EVERY_S for a, b in pairwise(noted))
    assert len(noted) >= 3


@pytest.mark.parametrize(
    "message",
    [
        {"type": "websocket.accept"},
        {"type": "websocket.close", "code": 1000, "reason": "over"},
        {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ],
)
async def test_what_carries_no_bytes_is_no_traffic(message: dict[str, Any]) -> None:
    noted: list[bool] = []
    client = Client()
    traffic = NotedTraffic(
        client.receive, client.send, clock=ManualClock(), note=lambda: noted.append(True)
    )
    await traffic.send(message)
    assert noted == []
    assert client.answers.get_nowait() == message


async def test_whoever_may_not_see_a_task_is_told_as_of_an_unknown_one(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Today's rules let every user see all tasks: they are asked here, and say no."""
    asked: list[tuple[Action, str]] = []

    def refuse(principal: object, action: Action, target: Any) -> bool:
        asked.append((action, str(target.id)))
        return False

    monkeypatch.setattr("master.api.proxy.services.allowed", refuse)
    name = f"{proxied.live.id}:{HTTP}"
    noted = proxied.live._active_at
    proxied.world.clock.advance(1)
    hidden = await proxied.world.client.get(
        f"/proxy/{name}/x", headers={"Authorization": f"Bearer {proxied.world.token}"}
    )
    unknown = await proxied.world.client.get("/proxy/nothing/x")
    assert (hidden.status_code, unknown.status_code) == (404, 404)
    assert hidden.json()["message"] == f"service not found: {name}"
    told = unknown.json()["message"]
    assert told == "service not found: nothing"
    assert asked == [(Action.VIEW_INTERACTIVE, proxied.live.id)]
    assert proxied.live._active_at == noted, "who is refused does not keep it alive"
