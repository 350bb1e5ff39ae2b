"""Where agents connect: a WebSocket that carries the agent protocol. They show a join token and their credential."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.websockets import WebSocketState

from agent_bootstrap.protocol import CREDENTIAL_HEADER, FROM_AGENT, ChannelClosed, Message
from master.api.access import token_in
from master.api.permits import public
from master.api.services import TheApi

AGENTS = "/agents"

FIRST_WORD_S = 5.0
"""How long an agent that was refused at once may take to say hello and listen."""

router = APIRouter()


class SocketChannel:
    """A `Channel` over an accepted WebSocket: JSON text frames, one message each."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._heard = False

    async def send(self, message: Message) -> None:
        try:
            await self._socket.send_text(message.model_dump_json())
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self) -> Message:
        """Raises ValidationError for a message that cannot be read."""
        try:
            frame = await self._socket.receive()
        except RuntimeError as error:
            raise ChannelClosed(str(error)) from error
        self._heard = True
        if frame["type"] == "websocket.disconnect":
            raise ChannelClosed(f"closed by the peer ({frame.get('code')})")
        return FROM_AGENT.validate_json(frame.get("text") or frame.get("bytes") or b"")

    async def close(self) -> None:
        if WebSocketState.DISCONNECTED in (
            self._socket.client_state,
            self._socket.application_state,
        ):
            return
        try:
            if not self._heard:
                # An agent speaks first: closing before that would make it fail to send, and never read why.
                with suppress(TimeoutError):
                    async with asyncio.timeout(FIRST_WORD_S):
                        await self._socket.receive()
            await self._socket.close()
        except (RuntimeError, OSError) as error:
            raise ChannelClosed(str(error)) from error


@router.websocket(AGENTS)
@public
async def agents(socket: WebSocket, api: TheApi, pool: str = "", agent_id: str = "") -> None:
    """`agent_id` is for the access log; who the agent is, its Hello says."""
    await socket.accept()
    await api.services.gateway.serve(
        SocketChannel(socket),
        pool=pool,
        token=token_in(socket.scope["headers"]),
        credential=socket.headers.get(CREDENTIAL_HEADER, ""),
        peer=socket.client.host if socket.client else "",
    )
