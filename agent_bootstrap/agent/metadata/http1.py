"""HTTP/1.1 with the metadata service, one connection for each request."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

PORTS = range(700, 900)
"""We ask from these, and `closing` lets them pass, answers too: the kernel looks for a way back to whoever answers.
Only root and who has NET_BIND_SERVICE can have them."""
MAX_BYTES = 256 * 1024


class HttpReply(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


async def ask(
    url: str, *, method: str = "GET", headers: Mapping[str, str], timeout_s: float
) -> HttpReply:
    """Raises OSError. No proxy of the environment is asked: the service is on this machine."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = h11.Request(
        method=method,
        target=target,
        headers=[("Host", parts.netloc), ("Connection", "close"), *headers.items()],
    )
    async with asyncio.timeout(timeout_s):
        reader, writer = await _connected(parts.hostname or "", parts.port or 80)
        try:
            protocol = h11.Connection(h11.CLIENT)
            writer.write(protocol.send(head) or b"")
            writer.write(protocol.send(h11.EndOfMessage()) or b"")
            return await _reply(protocol, reader)
        except h11.RemoteProtocolError as error:
            raise OSError(f"{url}: {error}") from error
        finally:
            writer.close()


async def _connected(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.setblocking(False)
        _bind(connection)
        await asyncio.get_running_loop().sock_connect(connection, (host, port))
        return await asyncio.open_connection(sock=connection)
    except BaseException:
        connection.close()
        raise


def _bind(connection: socket.socket) -> None:
    """To a port that is free. Raises OSError."""
    for port in random.sample(PORTS, len(PORTS)):
        try:
            connection.bind(("", port))
        except PermissionError:  # then nothing is closed by us, either
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return
    raise OSError(errno.EADDRINUSE, f"ports {PORTS[0]} to {PORTS[-1]} are all in use")


async def _reply(protocol: h11.Connection, reader: asyncio.StreamReader) -> HttpReply:
    status, headers, body = 0, {}, bytearray()
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in event.headers}
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BYTES:
                raise OSError(f"the answer has more than {MAX_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return HttpReply(status, bytes(body), headers)
        elif isinstance(event, h11.ConnectionClosed):
            raise OSError("the connection ended before the answer")
