"""A task is in use while bytes move between it and a client. An open connection alone says nothing."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Message, Receive, Send

from windlass.base.clock import Clock

EVERY_S = 1.0
"""Bytes may come in very small pieces: what they say is told at most so often."""


class NotedTraffic:
    """`receive` and `send` of a connection, which call `note` when they have carried bytes, whichever way.

    What keeps a WebSocket open is no message, and does not count.
    """

    def __init__(
        self, receive: Receive, send: Send, *, clock: Clock, note: Callable[[], None]
    ) -> None:
        self._receive = receive
        self._send = send
        self._clock = clock
        self._note = note
        self._noted_at: float | None = None

    async def receive(self) -> Message:
        message = await self._receive()
        self._look(message)
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        self._look(message)

    def _look(self, message: Message) -> None:
        if not any(message.get(part) for part in ("body", "bytes", "text")):
            return
        now = self._clock.monotonic()
        if self._noted_at is None or now - self._noted_at >= EVERY_S:
            self._noted_at = now
            self._note()
