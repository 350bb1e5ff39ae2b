"""Carries the output of one container to the master: in order, at least once, by byte offset, one batch in flight."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.log_lines import OutputLines, read_lines
from agent_bootstrap.protocol import ChannelClosed, LogBatch
from windlass.base.clock import Clock

POLL_S = 0.05
"""How soon a line is seen while there is output."""
QUIET_POLL_S = 0.25
FLUSH_S = 1.0
"""Output that keeps coming is sent this often, or by the thousand lines."""
BACKLOG_BYTES = 64 * 1024
ACK_LIMIT_S = 30.0
"""A batch without an answer is sent again; the master drops what it has."""
STALLED_S = 60.0
"""A connected master that takes no output for this long does not hold up the news of an exit."""

log = logging.getLogger(__name__)


class LogShipper:
    """Tails one output file. `run()` is owned by the container; it ends only by cancellation."""

    def __init__(
        self,
        place: ContainerDir,
        record: ContainerRecord,
        *,
        agent_id: str,
        link: MasterLink,
        clock: Clock,
    ) -> None:
        self._place = place
        self._record = record
        self._agent_id = agent_id
        self._link = link
        self._clock = clock
        self._offset = place.shipped()
        self._seen_size = 0
        self._sent_at = float("-inf")
        self._complete = False
        self._answered = asyncio.Event()
        self._progressed = asyncio.Event()
        self._drained = asyncio.Event()
        self._hurry = asyncio.Event()

    def resume(self, offset: int | None) -> None:
        """A new connection: go on where the master says, if it says."""
        if offset is not None:
            self._offset = offset
        self._answered.set()

    def acknowledge(self, next_offset: int) -> None:
        """The master has everything before that byte, and wants that byte next."""
        self._offset = next_offset
        with suppress(
            OSError
        ):  # lost with the directory or a full disk: lines are then sent twice, not lost
            self._place.write_shipped(next_offset)
        self._answered.set()
        self._progressed.set()

    async def drain(self) -> None:
        """The task is over. Returns when the master has all of its output, or is there and does not take it."""
        self._complete = True
        self._hurry.set()
        while not self._drained.is_set():
            self._progressed.clear()
            await self._link.connected()
            try:
                async with asyncio.timeout(STALLED_S):
                    await self._progressed.wait()
            except TimeoutError:
                log.warning("output of %s is not taken by the master", self._record.container_id)
                return

    async def run(self) -> None:
        pause = POLL_S
        while True:
            await self._link.connected()
            if self._is_due():
                pause = POLL_S
                lines = await asyncio.to_thread(
                    read_lines, self._place.output, self._offset, complete=self._complete
                )
                if lines.next_offset > self._offset:
                    await self._ship(lines)
                    continue
            if self._complete and self._size() <= self._offset:
                self._drained.set()
                self._progressed.set()
            await self._rest(pause)
            pause = min(pause * 1.2, QUIET_POLL_S)

    def _size(self) -> int:
        try:
            return self._place.output.stat().st_size
        except FileNotFoundError:
            return 0

    def _is_due(self) -> bool:
        """Ship when there is a lot, when it pauses, when the last time is a while ago, or when it is over."""
        size = self._size()
        grew, self._seen_size = size != self._seen_size, size
        waiting = size - self._offset
        if waiting <= 0:
            return False
        is_time = self._clock.monotonic() - self._sent_at >= FLUSH_S
        return self._complete or is_time or not grew or waiting >= BACKLOG_BYTES

    async def _ship(self, lines: OutputLines) -> None:
        batch = LogBatch(
            container_id=self._record.container_id,
            allocation_id=self._record.allocation_id,
            task_id=self._record.task_id,
            agent_id=self._agent_id,
            first_offset=self._offset,
            next_offset=lines.next_offset,
            entries=lines.entries,
        )
        self._answered.clear()
        self._sent_at = self._clock.monotonic()
        try:
            await self._link.send(batch)
        except ChannelClosed:
            await self._rest(POLL_S)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(ACK_LIMIT_S):
                await self._answered.wait()

    async def _rest(self, seconds: float) -> None:
        """Sleep, but not through the end of the task."""
        if self._hurry.is_set():
            await asyncio.sleep(POLL_S)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
