"""Tunnels: connections to ports of this machine go on, each through a WebSocket of the master, to a port of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from windlass.base.errors import InvalidArgument, NotFound
from windlass.sdk.session import Session
from windlass.sdk.wire import error_text

HERE = "127.0.0.1"
CHUNK_BYTES = 64 * 1024
OPEN_LIMIT_S = 30.0
MAX_PORT = 65535

Tell = Callable[[str], None]


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
        raise NotFound("running task", task_id, ": `det task tunnel` takes whole ids")
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
    """Until it is interrupted. `services`: what the master calls a port of a task, by port of this machine.

    Raises InvalidArgument for a port that cannot be had.
    """
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(session, services, tell))


async def _run(session: Session, services: Mapping[int, str], tell: Tell) -> None:
    servers = []
    for port, service in services.items():
        tunnel = _Tunnel(session, service, tell)
        try:
            servers.append(await asyncio.start_server(tunnel.serve, HERE, port))
        except OSError as error:
            why = error.strerror or str(error)
            raise InvalidArgument(
                f"port {port} of this machine cannot be used ({why}): choose another one, LOCAL:PORT"
            ) from None
        tell(f"{HERE}:{port} leads to {service}")
    await asyncio.gather(*(server.serve_forever() for server in servers))


class _Tunnel:
    """To one service. `serve` is called for each connection."""

    def __init__(self, session: Session, service: str, tell: Tell) -> None:
        self._session = session
        self._service = service
        self._tell = tell

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with await self._open() as socket:
                await _carry(reader, writer, socket)
        except InvalidStatus as error:
            self._tell(f"{self._service}: {error_text(bytes(error.response.body or b''))}")
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            self._tell(f"{self._service}: {error or 'the master does not answer'}")
        finally:
            writer.close()

    async def _open(self) -> ClientConnection:
        url = self._session.url
        tls = self._session.tls
        return await connect(
            f"ws{url.removeprefix('http')}/proxy/{self._service}/",
            additional_headers={"Authorization": f"Bearer {self._session.token}"},
            ssl=tls,
            server_hostname=(self._session.cert_name or None) if tls is not None else None,
            compression=None,
            max_size=None,
            open_timeout=OPEN_LIMIT_S,
        )


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: ClientConnection
) -> None:
    """Until the task has sent all, or the local end is gone."""

    async def give() -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                await socket.send(data)
        except OSError:  # the local end is gone
            await socket.close()
        else:
            await socket.send(b"")  # the master ends this direction only

    giving = asyncio.create_task(give())
    try:
        async for data in socket:
            writer.write(data if isinstance(data, bytes) else data.encode())
            await writer.drain()
    finally:
        giving.cancel()
        await asyncio.gather(giving, return_exceptions=True)
