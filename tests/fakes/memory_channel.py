"""The in-memory Channel: a pair of queues between an agent and a master in one event loop."""

from __future__ import annotations

import asyncio
from collections import deque

from agent_bootstrap.protocol import FROM_AGENT, FROM_MASTER, ChannelClosed, Message


class MemoryChannel:
    """One end. What was sent before a `close` is still received; a `cut` loses it."""

    def __init__(self, *, from_agent: bool, encode: bool) -> None:
        self.own_address = ""
        self._adapter = FROM_AGENT if from_agent else FROM_MASTER
        self._encode = encode
        self._inbox: deque[Message] = deque()
        self._woken = asyncio.Event()
        self._closed = False
        self._stalled = False
        self.peer: MemoryChannel
        self.closed_because = ""
        """What the peer said when it closed the connection."""

    async def send(self, message: Message) -> None:
        if self._closed:
            raise ChannelClosed("closed")
        if self._stalled:
            return
        if self._encode:
            message = self.peer._adapter.validate_json(message.model_dump_json())
        self.peer._inbox.append(message)
        self.peer._woken.set()

    async def receive(self) -> Message:
        while not self._inbox:
            if self._closed:
                raise ChannelClosed("closed")
            self._woken.clear()
            await self._woken.wait()
        return self._inbox.popleft()

    async def close(self, reason: str = "") -> None:
        self.peer.closed_because = self.peer.closed_because or reason
        for end in (self, self.peer):
            end._closed = True
            end._woken.set()

    def cut(self) -> None:
        """Both sides notice at once; what was on the way is lost."""
        for end in (self, self.peer):
            end._inbox.clear()
            end._closed = True
            end._woken.set()

    def stall(self) -> None:
        """Nothing arrives any more in either direction, and nobody notices."""
        self._stalled = self.peer._stalled = True


def memory_channel(*, encode: bool = True) -> tuple[MemoryChannel, MemoryChannel]:
    """(the agent's end, the master's end). With `encode`, messages go through JSON as they would over a socket."""
    agent_end = MemoryChannel(from_agent=False, encode=encode)
    master_end = MemoryChannel(from_agent=True, encode=encode)
    agent_end.peer, master_end.peer = master_end, agent_end
    return agent_end, master_end
