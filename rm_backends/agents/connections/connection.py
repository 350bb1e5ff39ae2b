"""The master's end of one agent's connection: messages out through a queue, so that nothing waits for a slow agent."""

from __future__ import annotations

import asyncio
from collections import deque

from agent_bootstrap.protocol import Channel, ChannelClosed, Heartbeat, Leaving, LogBatch, Message
from windlass.base.clock import Clock
from windlass.base.pace import Pace

MAX_OUTGOING = 10_000
"""An agent this far behind is cut off; the resync at its return sends what it still needs."""

BURST = 5_000
"""Thousands of containers may end at once."""
RATE = 200
"""Messages a second of one agent, in the long run. Beyond it the agent waits, others do not."""
COSTS: dict[type[Message], float] = {LogBatch: 0.25, Heartbeat: 20, Leaving: 200}
"""What a message counts for: of batches one is on its way per container, a heartbeat is due every 5 s, and an end of
the machine asks all its work to leave. All others: 1."""


class AgentConnection:
    """Satisfies `agents.AgentLink`. `write` runs as a task of the gateway until the connection is closed."""

    def __init__(self, channel: Channel, clock: Clock) -> None:
        self.last_heard = clock.monotonic()
        self.close_reason: str | None = None
        self._log_batches: dict[str, LogBatch] = {}
        self._logged = asyncio.Event()
        self._channel = channel
        self._clock = clock
        self._pace = Pace(rate=RATE, burst=BURST)
        self._outgoing: deque[Message] = deque()
        self._woken = asyncio.Event()

    def send(self, message: Message) -> None:
        if self.close_reason is not None:
            return
        self._outgoing.append(message)
        if len(self._outgoing) > MAX_OUTGOING:
            self.close(f"{MAX_OUTGOING} messages behind")
        self._woken.set()

    def close(self, reason: str) -> None:
        """Nothing more is sent; the gateway ends the connection."""
        self.close_reason = self.close_reason or reason
        self._woken.set()

    async def receive(self, silence_s: float) -> Message:
        """The next message. Raises TimeoutError after `silence_s` without one, ChannelClosed, BadMessage."""
        async with asyncio.timeout(silence_s):
            message = await self._channel.receive()
        await self._pace.spend(COSTS.get(type(message), 1))
        self.last_heard = self._clock.monotonic()
        return message

    def keep_log(self, batch: LogBatch) -> None:
        """Keep it for the log store, however slow that is: exits and heartbeats come behind it.

        An agent repeats what is not acknowledged, so of each container only the newest batch counts.
        """
        self._log_batches[batch.container_id] = batch
        self._logged.set()

    async def next_log(self) -> LogBatch:
        """The oldest batch that is kept."""
        while not self._log_batches:
            self._logged.clear()
            await self._logged.wait()
        return self._log_batches.pop(next(iter(self._log_batches)))

    async def write(self) -> None:
        """Send what is queued, in order. Ends only by raising ChannelClosed."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._outgoing and self.close_reason is None:
                await self._channel.send(self._outgoing.popleft())
            if self.close_reason is not None:
                raise ChannelClosed(self.close_reason)
