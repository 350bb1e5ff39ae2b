"""The input and output of a process as a pipe: of this one, or of one that it has started."""

from __future__ import annotations

import asyncio
import sys

from agent_bootstrap.channels.streams import CHUNK_BYTES, SocketStream


class PipeStream(SocketStream):
    """A pipe has an end in each direction: to end is to close ours."""

    async def end(self) -> None:
        self.close()


async def standard_pipe() -> PipeStream:
    """What this process was started with. Nothing else may write to its output."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    return PipeStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
