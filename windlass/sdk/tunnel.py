"""Tunnels: what comes to ports of this machine, or to standard input, goes to a port of a task, and back.

Each connection goes through a WebSocket of its own to the master.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from windlass.base.errors import InvalidArgument, NotFound, WindlassError
from windlass.sdk.session import Session
from windlass.sdk.wire import MasterUnreachable, error_from_response

HERE = "127.0.0.1"
CHUNK_BYTES = 64 * 1024
CHUNKS_AHEAD = 4
"""Of standard input, beyond what the task has taken."""
OPEN_LIMIT_S = 30.0
KEEP_ALIVE_S = 15
"""A master that is gone without a word is noticed after about three times as long."""
MAX_PORT = 65535

Tell = Callable[[str], None]
Read = Callable[[], Awaitable[bytes]]
"""The next bytes; none at the end."""
Write = Callable[[bytes], Awaitable[None]]


def local_ports(words: Iterable[str]) -> dict[int, int]:
    """Ports of this machine, each with the task's. Raises InvalidArgument."""
    found: dict[int, int] = {}
    for word in words:
        local, _, remote = word.rpartition(":")
        numbers = [_port(part, word) for part in (local or remote, remote)]
        if numbers[0] in found:
            raise InvalidArgument(f'"{word}": port {numbers[0]} of this machine is named twice')
        found[numbers[0]] = numbers[1]
    return found


def _port(text: str, word: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PORT:
        raise InvalidArgument(f'"{word}" is not a port or LOCAL:PORT, from 1 to {MAX_PORT}')
    return int(text)


def services_of(session: Session, task_id: str, ports: Iterable[int]) -> dict[int, str]:
    """What the master calls these TCP ports of a running task. Raises InvalidArgument, NotFound."""
    running = session.get("/api/v1/tasks")["allocationIdToSummary"].values()
    mine = [one["proxyPorts"] for one in running if one["taskId"] == task_id]
    if not mine:
        raise NotFound("running task", task_id)
    known = {port["port"]: port for port in mine[0]}
    tcp = sorted(port for port, one in known.items() if one["proxyTcp"])
    for port in ports:
        if port not in known:
            listed = ", ".join(map(str, tcp)) or "none"
            raise InvalidArgument(
                f"port {port} is not one that task {task_id} serves (TCP ports it serves: {listed}): "
                "name it in environment.proxy_ports of its configuration, with proxy_tcp: true"
            )
        if port not in tcp:
            raise InvalidArgument(
                f"port {port} is served as HTTP, at {session.url}/proxy/{known[port]['serviceId']}/: "
                "for a tunnel set proxy_tcp: true in environment.proxy_ports"
            )
    return {port: known[port]["serviceId"] for port in tcp}


def run_tunnels(session: Session, services: Mapping[int, str], tell: Tell) -> None:
    """`tunnels` until they are interrupted."""
    with tunnels(session, services, tell), suppress(KeyboardInterrupt):
        threading.Event().wait()


@contextmanager
def tunnels(session: Session, services: Mapping[int, str], tell: Tell) -> Iterator[None]:
    """Open while the block runs. `services`: what the master calls a port of a task, by port of this machine.

    Raises InvalidArgument for a port that cannot be had.
    """
    opened: Future[Callable[[], None]] = Future()

    async def serve() -> None:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            servers = [await _listen(session, *each, tell) for each in services.items()]
        except BaseException as problem:  # noqa: BLE001 - raised where the block begins
            opened.set_exception(problem)
            return

        def close() -> None:
            loop.call_soon_threadsafe(over.set)

        opened.set_result(close)
        await over.wait()
        for server in servers:
            server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="tunnels", daemon=True)
    thread.start()
    close = opened.result()
    try:
        yield
    finally:
        close()
        thread.join()


async def _listen(session: Session, port: int, service: str, tell: Tell) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            await _carry(lambda: reader.read(CHUNK_BYTES), write, await _open(session, service))
        except WindlassError as problem:
            tell(f"{service}: {problem}")
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(serve, HERE, port)
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidArgument(
            f"port {port} of this machine cannot be used ({why}): choose another one, LOCAL:PORT"
        ) from None
    tell(f"{HERE}:{port} leads to {service}")
    return server


def run_pipe(session: Session, service: str) -> None:
    """Standard input goes to a service and what it sends to standard output, until it has sent all.

    Raises NotFound, MasterUnreachable and others, as the master has it.
    """

    async def carry() -> None:
        socket = await _open(session, service)
        await _carry(_standard_input(), _to_standard_output, socket)

    asyncio.run(carry())


def _standard_input() -> Read:
    """Read by a thread that nobody waits for: whatever it is, a file, a terminal or a pipe."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue(CHUNKS_AHEAD)
    loop = asyncio.get_running_loop()

    def copy() -> None:
        data = b"begun"
        while data:
            try:
                data = os.read(sys.stdin.fileno(), CHUNK_BYTES)
            except OSError:
                data = b""
            putting = chunks.put(data)
            try:
                asyncio.run_coroutine_threadsafe(putting, loop).result()
            except (RuntimeError, CancelledError):  # all is over
                putting.close()
                return

    threading.Thread(target=copy, name="stdin", daemon=True).start()
    return chunks.get


async def _to_standard_output(data: bytes) -> None:
    def write() -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(sys.stdout.fileno(), left) :]

    await asyncio.to_thread(write)


async def _open(session: Session, service: str) -> ClientConnection:
    """Raises what the master answered, or MasterUnreachable."""
    tls = session.tls
    login = {"Authorization": f"Bearer {session.token}"} if session.token else {}
    try:
        opened = await connect(
            f"ws{session.url.removeprefix('http')}/proxy/{service}/",
            additional_headers=login,
            ssl=tls,
            server_hostname=(session.cert_name or None) if tls is not None else None,
            compression=None,
            max_size=None,
            open_timeout=OPEN_LIMIT_S,
            ping_interval=None,  # while a task takes nothing the master reads nothing, pings among it
        )
    except InvalidStatus as refused:
        status, body = refused.response.status_code, bytes(refused.response.body or b"")
        raise error_from_response(status, body, request=f"GET /proxy/{service}/") from None
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise MasterUnreachable(str(error) or "the master does not answer") from None
    _keep_alive(opened.transport.get_extra_info("socket"))
    return opened


def _keep_alive(sock: socket.socket) -> None:
    """With what of it this system has."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {"TCP_KEEPIDLE": KEEP_ALIVE_S, "TCP_KEEPINTVL": KEEP_ALIVE_S, "TCP_KEEPCNT": 2}
    for name, value in settings.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def _carry(read: Read, write: Write, socket: ClientConnection) -> None:
    """Until the task has sent all, or the local end is gone. Raises MasterUnreachable if it broke before that."""

    async def give() -> None:
        try:
            while data := await read():
                await socket.send(data)
        except OSError:  # the local end is gone
            await socket.close()
        else:
            await socket.send(b"")  # the master ends this direction only

    async with socket:
        giving = asyncio.create_task(give())
        try:
            async for data in socket:
                await write(data if isinstance(data, bytes) else data.encode())
        except OSError:  # the local end is gone
            return
        except ConnectionClosed as closed:
            raise MasterUnreachable(str(closed)) from None
        finally:
            giving.cancel()
            await asyncio.gather(giving, return_exceptions=True)
