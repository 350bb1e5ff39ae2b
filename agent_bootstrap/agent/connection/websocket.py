"""The agent's end of the WebSocket to the master. Join token and credential travel in headers and are never logged."""

from __future__ import annotations

import asyncio
import logging
import os
from ipaddress import ip_address
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from agent_bootstrap.agent.connection.master_trust import context_for, why_refused
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.bounds import error_words, one_line
from agent_bootstrap.protocol import (
    CREDENTIAL_HEADER,
    FROM_MASTER,
    MAX_MESSAGE_BYTES,
    ChannelClosed,
    Message,
)
from windlass.base.errors import PermissionDenied
from windlass.base.tls.trust import CertificateRefused

PING_S = 15.0
PONG_LIMIT_S = 45.0
OPEN_LIMIT_S = 10.0

log = logging.getLogger(__name__)
_wire_log = logging.getLogger("agent_bootstrap.wire")
# The library logs request headers, the token among them, at level DEBUG.
_wire_log.setLevel(logging.WARNING)


class WebSocketChannel:
    """JSON text frames, one message each. Frames of a newer master that nobody here understands are skipped."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @property
    def own_address(self) -> str:
        return shared_address(str(self._connection.local_address[0]))

    async def send(self, message: Message) -> None:
        try:
            await self._connection.send(message.model_dump_json())
        except ConnectionClosed as error:
            raise ChannelClosed(_why(error)) from error

    async def receive(self) -> Message:
        while True:
            try:
                frame = await self._connection.recv()
            except ConnectionClosed as error:
                raise ChannelClosed(_why(error)) from error
            try:
                return FROM_MASTER.validate_json(frame)
            except ValidationError as error:
                # Inputs hold environments of tasks: name the places only.
                places = [item["loc"] for item in error.errors(include_input=False)]
                log.warning("message of the master not understood, skipped: %s", places)

    async def close(self, reason: str = "") -> None:
        await self._connection.close()


def shared_address(address: str) -> str:
    """Empty for one that only this machine, or those on its own wire, can use."""
    found = ip_address(address)
    return "" if found.is_loopback or found.is_link_local else address


def _why(error: ConnectionClosed) -> str:
    """In the words of the master, if it said why."""
    if error.rcvd is not None and error.rcvd.reason:
        return f"the master closed the connection: {one_line(error.rcvd.reason)}"
    return str(error)


class WebSocketStream:
    """Implements `channels.streams.Stream`: binary frames, of any length."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._closing: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        try:
            frame = await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise ConnectionError(_why(error)) from error
        return frame if isinstance(frame, bytes) else b""

    async def write(self, data: bytes) -> None:
        try:
            await self._connection.send(data)
        except ConnectionClosed as error:
            raise ConnectionError(_why(error)) from error

    async def end(self) -> None:
        """A WebSocket has no half-closed state."""

    def close(self) -> None:
        self._closing = asyncio.ensure_future(self._connection.close())


async def connect(options: AgentOptions, credential: str) -> WebSocketChannel:
    """Dial the master once. Raises ChannelClosed when it cannot be reached, PermissionDenied when it refuses us."""
    return WebSocketChannel(await _open(options, credential, "/agents"))


async def connect_streams(options: AgentOptions, credential: str) -> WebSocketStream:
    """The connection for streams, of an agent that the master knows by its credential. Raises as `connect`."""
    return WebSocketStream(await _open(options, credential, "/agents/streams"))


async def _open(options: AgentOptions, credential: str, path: str) -> ClientConnection:
    headers = {CREDENTIAL_HEADER: credential}
    if token := options.token():
        headers["Authorization"] = f"Bearer {token}"
    url = agents_url(options, path)
    secure = url.startswith("wss:")
    try:
        return await open_websocket(
            url,
            additional_headers=headers,
            ssl=await asyncio.to_thread(context_for, options) if secure else None,
            server_hostname=(options.security.tls.master_cert_name or None) if secure else None,
            logger=_wire_log,
            compression=None,
            proxy=None,
            max_size=MAX_MESSAGE_BYTES,
            ping_interval=PING_S,
            ping_timeout=PONG_LIMIT_S,
            open_timeout=OPEN_LIMIT_S,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        said, _ = error_words(bytes(error.response.body or b""))
        told = f"HTTP {status}: {said}" if said else f"HTTP {status}"
        if status in (401, 403):
            raise PermissionDenied(
                f"the master refuses agent {options.agent_id} for pool {options.resource_pool} "
                f"({told}): its join token is not valid for that pool, and its credential is of no agent there: "
                "check the join token"
            ) from None
        raise ChannelClosed(f"{options.url} answered {told}") from None
    except (OSError, TimeoutError, InvalidHandshake, CertificateRefused) as error:
        why = await asyncio.to_thread(why_refused, error, options) if secure else ""
        raise ChannelClosed(f"cannot reach {options.url}: {why or _said(error)}") from error


def _said(error: Exception) -> str:
    """Of asyncio's words for errors of the system, the system's own are the readable part."""
    if isinstance(error, TimeoutError):
        return f"no answer within {OPEN_LIMIT_S:g} s"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error)


def agents_url(options: AgentOptions, path: str = "/agents") -> str:
    """ws(s)://master/agents?pool=&agent_id="""
    parts = urlsplit(options.url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    query = (
        f"pool={quote(options.resource_pool, safe='')}&agent_id={quote(options.agent_id, safe='')}"
    )
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + path, query, ""))
