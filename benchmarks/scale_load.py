"""Pretended agents, trials and people for `bench_scale`: as cheap as Python allows, to measure the master alone.

Agents speak the real protocol over real WebSockets. Trials keep one long poll open and report metrics; people read
lists. HTTP is written by hand over kept connections: a client library would cost more than the master's answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from agent_bootstrap.protocol import CREDENTIAL_HEADER

REPORT_EVERY_S = 10.0
POLL_S = 600
"""A long poll that nothing answers is asked again after this."""
MAX_FRAME = 128 * 1024 * 1024


class Http(asyncio.Protocol):
    """One kept connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        start = head.find(b"content-length:")
        length = int(head[start + 15 : head.find(b"\r\n", start) % (len(head) + 1)])
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        self._buffer.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the master closed the connection"))

    async def ask(
        self, address: tuple[str, int], method: str, path: str, token: str, body: bytes = b""
    ) -> tuple[int, bytes]:
        """Status and body. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            self._buffer.clear()
            await loop.create_connection(lambda: self, *address)
        assert self._transport is not None
        self._answer = loop.create_future()
        self._transport.write(
            f"{method} {path} HTTP/1.1\r\nHost: master\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@dataclass
class Figures:
    """What was seen. Times in seconds."""

    reports: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    failures: int = 0
    started: list[float] = field(default_factory=list)
    """Moments (perf_counter) at which an agent was told to start a container."""
    killed: list[float] = field(default_factory=list)
    measuring: bool = False


@dataclass
class Trial:
    """One pretended trial: reports and a long poll, until its container ends."""

    container_id: str
    allocation_id: str
    trial_id: int
    run_id: int
    token: str
    steps: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Load:
    """All pretended clients of one master."""

    def __init__(self, port: int, seed: int) -> None:
        self.address = ("127.0.0.1", port)
        self.figures = Figures()
        self.trials: dict[str, Trial] = {}
        self.random = random.Random(seed)
        self.connected = 0
        self.changed = asyncio.Event()
        self._reporters: asyncio.Queue[Http] = asyncio.Queue()
        for _ in range(64):
            self._reporters.put_nowait(Http())
        self._background: set[asyncio.Task[None]] = set()

    async def until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Whether `condition` held in time."""
        deadline = time.perf_counter() + limit_s
        while not condition():
            left = deadline - time.perf_counter()
            if left <= 0:
                return False
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), min(left, 0.5))
            except TimeoutError:
                continue
        return True

    def spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        tasks = [*self._background, *(t for trial in self.trials.values() for t in trial.tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What trials do

    def begin(self, trial: Trial) -> None:
        self.trials[trial.container_id] = trial
        trial.tasks = [
            asyncio.create_task(self._poll(trial)),
            asyncio.create_task(self._report(trial)),
        ]
        self.changed.set()

    def end(self, container_id: str) -> None:
        if (trial := self.trials.pop(container_id, None)) is not None:
            for task in trial.tasks:
                task.cancel()
        self.changed.set()

    async def _poll(self, trial: Trial) -> None:
        path = f"/api/v1/allocations/{quote(trial.allocation_id)}/signals/preemption?timeoutSeconds={POLL_S}"
        http = Http()
        try:
            while True:
                try:
                    await http.ask(self.address, "GET", path, trial.token)
                except OSError:
                    await asyncio.sleep(1 + self.random.random())
        finally:
            http.close()

    async def _report(self, trial: Trial) -> None:
        await asyncio.sleep(self.random.random() * REPORT_EVERY_S)
        path = f"/api/v1/trials/{trial.trial_id}/metrics"
        while True:
            due = time.perf_counter() + REPORT_EVERY_S
            trial.steps += 1
            body = {
                "group": "training",
                "metrics": {
                    "trialId": trial.trial_id,
                    "trialRunId": trial.run_id,
                    "stepsCompleted": trial.steps,
                    "metrics": {"avgMetrics": {"loss": 1.0 / trial.steps, "accuracy": 0.5}},
                },
            }
            http = await self._reporters.get()
            begun = time.perf_counter()
            try:
                status, _ = await http.ask(
                    self.address, "POST", path, trial.token, orjson.dumps(body)
                )
                self._note(self.figures.reports, begun, status)
            except OSError:
                self._note(self.figures.reports, begun, 0)
            finally:
                self._reporters.put_nowait(http)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))

    def _note(self, into: list[float], begun: float, status: int) -> None:
        if self.figures.measuring:
            into.append(time.perf_counter() - begun)
            self.figures.failures += status != 200

    # What people do

    async def person(self, token: str, paths: list[str]) -> None:
        """Reads lists, one a second."""
        http = Http()
        await asyncio.sleep(self.random.random())
        while True:
            begun = time.perf_counter()
            try:
                status, _ = await http.ask(self.address, "GET", self.random.choice(paths), token)
                self._note(self.figures.reads, begun, status)
            except OSError:
                self._note(self.figures.reads, begun, 0)
            await asyncio.sleep(1.0)


class Agent:
    """A pretended agent. Containers outlive its connections."""

    def __init__(self, load: Load, agent_id: str, *, slots: int, token: str) -> None:
        self._load = load
        self._id = agent_id
        self._slots = slots
        self._headers = {
            "Authorization": f"Bearer {token}",
            CREDENTIAL_HEADER: hashlib.sha256(agent_id.encode()).hexdigest(),
        }
        self._containers: dict[str, str] = {}
        """container id -> allocation id"""

    async def run(self) -> None:
        host, port = self._load.address
        url = f"ws://{host}:{port}/agents?pool=default&agent_id={self._id}"
        while True:
            try:
                async with connect(
                    url,
                    additional_headers=self._headers,
                    compression=None,
                    max_size=MAX_FRAME,
                    ping_interval=None,
                    open_timeout=60,
                    proxy=None,
                ) as socket:
                    await self._converse(socket)
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError):
                await asyncio.sleep(0.2 + self._load.random.random())

    async def _converse(self, socket: ClientConnection) -> None:
        await self._say(socket, self._hello())
        beat = asyncio.create_task(self._beat(socket))
        counted = False
        try:
            async for frame in socket:
                message = orjson.loads(frame)
                match message["type"]:
                    case "welcome":
                        self._load.connected += 1
                        counted = True
                        self._load.changed.set()
                    case "start_container":
                        await self._start(socket, message["spec"])
                    case "kill_container":
                        self._load.figures.killed.append(time.perf_counter())
                        await self._end(socket, message["container_id"], message["allocation_id"])
                    case "forget_container":
                        self._containers.pop(message["container_id"], None)
                    case "refused":
                        raise RuntimeError(f"agent {self._id} was refused: {message['reason']}")
        finally:
            beat.cancel()
            self._load.connected -= counted

    def _hello(self) -> dict[str, Any]:
        return {
            "type": "hello",
            "version": "0.1.0",
            "agent_id": self._id,
            "pool": "default",
            "boot_id": "boot",
            "address": "127.0.0.1",
            "slots": [{"id": i, "kind": "artificial"} for i in range(self._slots)],
            "containers": [
                {"container_id": c, "allocation_id": a, "state": "RUNNING"}
                for c, a in self._containers.items()
            ],
        }

    async def _start(self, socket: ClientConnection, spec: dict[str, Any]) -> None:
        container_id, environment = spec["container_id"], spec["environment"]
        if container_id in self._containers:
            return
        self._load.figures.started.append(time.perf_counter())
        self._containers[container_id] = spec["allocation_id"]
        await self._report(socket, container_id, "RUNNING")
        self._load.begin(
            Trial(
                container_id=container_id,
                allocation_id=spec["allocation_id"],
                trial_id=int(environment["DET_TRIAL_ID"]),
                run_id=int(environment["DET_TRIAL_RUN_ID"]),
                token=environment["DET_SESSION_TOKEN"],
            )
        )

    async def _end(self, socket: ClientConnection, container_id: str, allocation_id: str) -> None:
        self._containers.setdefault(container_id, allocation_id)
        self._load.end(container_id)
        await self._report(socket, container_id, "EXITED")

    async def _report(self, socket: ClientConnection, container_id: str, state: str) -> None:
        report: dict[str, Any] = {
            "type": "container_report",
            "container_id": container_id,
            "allocation_id": self._containers[container_id],
            "state": state,
        }
        if state == "EXITED":
            report["exit"] = {"exit_code": 137, "at": "2026-01-01T00:00:00Z"}
        await self._say(socket, report)

    async def _beat(self, socket: ClientConnection) -> None:
        while True:
            await asyncio.sleep(5.0 * (0.5 + self._load.random.random() / 2))
            await self._say(socket, {"type": "heartbeat"})

    async def _say(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        await socket.send(orjson.dumps(message).decode())
