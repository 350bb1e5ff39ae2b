"""The input and output of a process as a pipe: of this one, or of one that it has started."""

from __future__ import annotations

import asyncio
import sys

from agent_bootstrap.channels.streams import CHUNK_BYTES


class PipeStream:
    """Implements `Stream`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.close()

    def close(self) -> None:
        self._writer.close()


async def standard_pipe() -> PipeStream:
    """What this process was started with. Nothing else may write to its output."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    return PipeStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
