"""A connection between master and agent without a network: what tests and the simulation use for a WebSocket."""

from __future__ import annotations

import asyncio
from collections import deque

from agent_bootstrap.protocol import Channel, ChannelClosed, Message

CAPACITY = 1024
"""Messages on their way in one direction; a sender waits when the peer does not read."""


class _Pipe:
    """One direction: ordered, bounded, closable. What was sent before the end can still be received."""

    def __init__(self, capacity: int) -> None:
        self._messages: deque[Message] = deque()
        self._capacity = capacity
        self._closed = False
        self._changed = asyncio.Condition()

    async def put(self, message: Message) -> None:
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._closed or len(self._messages) < self._capacity
            )
            if self._closed:
                raise ChannelClosed("the channel is closed")
            self._messages.append(message)
            self._changed.notify_all()

    async def get(self) -> Message:
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or bool(self._messages))
            if not self._messages:
                raise ChannelClosed("the channel is closed")
            message = self._messages.popleft()
            self._changed.notify_all()
            return message

    async def close(self) -> None:
        async with self._changed:
            self._closed = True
            self._changed.notify_all()


class MemoryChannel:
    """One end of a pair."""

    def __init__(self, inbox: _Pipe, outbox: _Pipe) -> None:
        self._inbox = inbox
        self._outbox = outbox

    async def send(self, message: Message) -> None:
        await self._outbox.put(message)

    async def receive(self) -> Message:
        return await self._inbox.get()

    async def close(self, reason: str = "") -> None:
        """Ends both directions, as closing a socket does."""
        await self._outbox.close()
        await self._inbox.close()


def channel_pair(capacity: int = CAPACITY) -> tuple[Channel, Channel]:
    """Two connected ends."""
    there, back = _Pipe(capacity), _Pipe(capacity)
    return MemoryChannel(back, there), MemoryChannel(there, back)
