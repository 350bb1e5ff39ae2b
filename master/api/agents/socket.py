"""Where agents connect: a WebSocket that carries the agent protocol. They show a join token and their credential."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from agent_bootstrap.frames import read_frame
from agent_bootstrap.protocol import CREDENTIAL_HEADER, ChannelClosed, Message
from master.api.access import note_known, token_in
from master.api.permits import public
from master.api.services import TheApi
from windlass.base.pace import Pace

AGENTS = "/agents"
STREAMS = f"{AGENTS}/streams"
"""Their second connection, which they open when the master asks."""

BYTES_PER_S = 16 * 1024 * 1024
BURST_BYTES = 64 * 1024 * 1024
"""Far more than the log store takes of one agent; reading it costs the event loop's time."""
POLICY_VIOLATION = 1008
MAX_CLOSE_BYTES = 123
"""Of the reason in a WebSocket's close frame."""

router = APIRouter()


class AcceptedWebSocket:
    """A `channels.streams.Stream` over an accepted WebSocket: binary frames, of any length."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._closing: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        try:
            frame = await self._socket.receive()
        except RuntimeError as error:
            raise ConnectionError(str(error)) from error
        if frame["type"] == "websocket.disconnect":
            return b""
        return frame.get("bytes") or b""

    async def write(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error)) from error

    async def end(self) -> None:
        """A WebSocket has no half-closed state."""

    def close(self) -> None:
        self._closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        with suppress(WebSocketDisconnect, RuntimeError, OSError):
            await self._socket.close()


class SocketChannel:
    """A `Channel` over an accepted WebSocket: JSON text frames, one message each."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._pace = Pace(rate=BYTES_PER_S, burst=BURST_BYTES)

    async def send(self, message: Message) -> None:
        try:
            await self._socket.send_text(message.model_dump_json())
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self) -> Message:
        try:
            frame = await self._socket.receive()
        except RuntimeError as error:
            raise ChannelClosed(str(error)) from error
        if frame["type"] == "websocket.disconnect":
            code, reason = frame.get("code"), frame.get("reason") or "closed by the agent"
            raise ChannelClosed(f"{reason} ({code})")
        data: str | bytes = frame.get("text") or frame.get("bytes") or b""
        await self._pace.spend(len(data))
        return read_frame(data)

    async def close(self, reason: str = "") -> None:
        if WebSocketState.DISCONNECTED in (
            self._socket.client_state,
            self._socket.application_state,
        ):
            return
        code = POLICY_VIOLATION if reason else 1000
        said = reason.encode()[:MAX_CLOSE_BYTES].decode(errors="ignore")
        try:
            await self._socket.close(code, said)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise ChannelClosed(str(error)) from error


@router.websocket(STREAMS)
@public
async def streams(socket: WebSocket, api: TheApi, agent_id: str = "") -> None:
    """Bytes to and from ports of its tasks. Only for agents that are connected at `AGENTS`."""
    carried = api.services.streams
    if not carried.admits(agent_id, socket.headers.get(CREDENTIAL_HEADER, "")):
        await socket.close()  # HTTP 403
        return
    await socket.accept()
    note_known(socket.scope)
    await carried.serve(AcceptedWebSocket(socket), agent_id)


@router.websocket(AGENTS)
@public
async def agents(socket: WebSocket, api: TheApi, pool: str = "", agent_id: str = "") -> None:
    """`agent_id` is for logs; who the agent is, its Hello says."""
    token = token_in(socket.scope["headers"])
    credential = socket.headers.get(CREDENTIAL_HEADER, "")
    peer = socket.client.host if socket.client else ""
    gateway = api.services.gateway
    try:
        refused = gateway.unauthenticated_reason(
            pool=pool, agent_id=agent_id, token=token, peer=peer, credential=credential
        )
        if refused:  # before anything of it is read
            # Not a reply with the reason: uvicorn logs an error after each. The agent knows what this one means.
            await socket.close()  # HTTP 403
            return
        await socket.accept()
        note_known(socket.scope)
    except WebSocketDisconnect:
        return  # it is gone already
    await gateway.serve(
        SocketChannel(socket),
        pool=pool,
        token=token,
        credential=credential,
        peer=peer,
    )
