"""The connection of the moment, for those who outlive it: containers and log shippers send through here."""

from __future__ import annotations

import asyncio

from agent_bootstrap.protocol import Channel, ChannelClosed, Message


class MasterLink:
    """Up between `Welcome` and the loss of a connection."""

    def __init__(self) -> None:
        self._channel: Channel | None = None
        self._up = asyncio.Event()

    async def connected(self) -> None:
        """Wait until the master listens."""
        await self._up.wait()

    async def send(self, message: Message) -> None:
        """Raises ChannelClosed: the sender keeps what it wanted to say and says it on the next connection."""
        if self._channel is None:
            raise ChannelClosed("not connected")
        await self._channel.send(message)

    def open(self, channel: Channel) -> None:
        self._channel = channel
        self._up.set()

    def close(self) -> None:
        self._channel = None
        self._up.clear()
