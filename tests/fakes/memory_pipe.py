"""Two ends of a stream of bytes, in memory: each end's writes are the other's reads, in pieces of any size."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class PipeEnd:
    """Implements `channels.streams.Stream`."""

    def __init__(self, piece: Callable[[], int]) -> None:
        self.other: PipeEnd
        self.is_closed = False
        self._piece = piece
        self._came: deque[bytes] = deque()
        self._ended = False
        self._change = asyncio.Event()

    async def read(self) -> bytes:
        while not self._came and not self._ended:
            if self.is_closed:
                raise ConnectionError("closed")
            self._change.clear()
            await self._change.wait()
        return self._came.popleft() if self._came else b""

    async def write(self, data: bytes) -> None:
        if self.is_closed or self.other.is_closed:
            raise ConnectionError("closed")
        while data:
            size = self._piece()
            self.other._came.append(data[:size])
            data = data[size:]
            self.other._change.set()
            await asyncio.sleep(0)

    async def end(self) -> None:
        self.other._ended = True
        self.other._change.set()

    def close(self) -> None:
        self.is_closed = True
        self.other._ended = True
        for one in (self, self.other):
            one._change.set()


def memory_pipe(piece: Callable[[], int] = lambda: 1 << 20) -> tuple[PipeEnd, PipeEnd]:
    """`piece`: the most bytes of each read."""
    one, other = PipeEnd(piece), PipeEnd(piece)
    one.other, other.other = other, one
    return one, other
