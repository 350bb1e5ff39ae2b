"""A pipe of files: two folders that both ends see, in which one writes numbered files and the other removes them.

Slow, and needs nothing but a shared directory. What is written waits until the reader has looked: a fraction of a
second on file systems that show changes at once, up to a minute on those that remember directories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from windlass.base.files import write_atomic

MOST_BYTES = 1024 * 1024
"""In one file."""
MOST_FILES = 8
"""That wait for their reader: then the writer waits."""
QUICK_S = 0.05
SLOW_S = 0.3
_END = "end"


class Box:
    """Implements `Stream`. `sent` and `came` are swapped at the other end."""

    def __init__(self, sent: Path, came: Path) -> None:
        self._sent = sent
        self._came = came
        self._next = self._next_read = 0
        self._is_closed = False
        self._waiting = bytearray()
        self._writing: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        pause_s = QUICK_S
        while not self._is_closed:
            data = await asyncio.to_thread(self._take)
            if data is not None:
                return data
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, SLOW_S)
        raise ConnectionError("the box is closed")

    async def write(self, data: bytes) -> None:
        """What is said shortly after another goes into one file with it."""
        self._waiting += data
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        while len(self._waiting) > MOST_BYTES and not self._writing.done():
            await asyncio.wait([self._writing], timeout=QUICK_S)
        if self._is_closed:
            raise ConnectionError("the box is closed")

    async def end(self) -> None:
        self.close()

    def close(self) -> None:
        """The other end finds the box closed."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(OSError):
                (self._sent / _END).touch(mode=0o600)

    async def _write(self) -> None:
        while self._waiting and not self._is_closed:
            while not self._is_closed and await asyncio.to_thread(self._unread) >= MOST_FILES:  # noqa: ASYNC110
                await asyncio.sleep(QUICK_S)
            data = bytes(self._waiting[:MOST_BYTES])
            del self._waiting[:MOST_BYTES]
            try:
                await asyncio.to_thread(write_atomic, self._sent / f"{self._next:012d}", data)
            except OSError:
                self.close()
                return
            self._next += 1

    def _unread(self) -> int:
        return sum(1 for _ in _numbered(self._sent))

    def _take(self) -> bytes | None:
        """The next file. None: it has not come. Nothing: the other end has closed."""
        try:
            names = {path.name for path in self._came.iterdir()}
        except FileNotFoundError:
            return b""  # the directory of the job is gone
        file = self._came / f"{self._next_read:012d}"
        if file.name in names:
            data = file.read_bytes()
            file.unlink()
            self._next_read += 1
            return data
        return b"" if _END in names else None


def _numbered(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name.isdigit():
                yield path
