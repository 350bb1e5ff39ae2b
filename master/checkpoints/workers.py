"""Processes that touch the files of checkpoints for the master: see `windlass.storage.worker`."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import orjson

from master.checkpoints.places import FolderHere, open_folder
from windlass.base.errors import Conflict, InvalidState, NotFound, WindlassError
from windlass.storage.worker import FolderResult, Order

DELETING_AT_ONCE = 4
"""Workers: a slow storage must not hold up all others."""
MOST_LINE_BYTES = 64 * 1024 * 1024
"""The list of files that are left of one checkpoint."""
PIECE = 256 * 1024
LAST_WORDS = 4_000
"""Bytes of a worker's error output that are kept."""


class WorkerFailed(WindlassError):
    """A worker ended before its work did."""

    code = "storage"


class Deleter(Protocol):
    """What a collection needs of this module; simulations have another one."""

    def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]: ...


class Archive:
    """One that has begun: what could be refused before its first byte was not."""

    def __init__(self, worker: _Worker) -> None:
        self._worker = worker

    async def pieces(self) -> AsyncIterator[bytes]:
        """Raises WorkerFailed if the archive is cut short."""
        while piece := await self._worker.out.read(PIECE):
            yield piece
        await self._worker.require_end()


@dataclass(frozen=True, slots=True)
class _Worker:
    process: asyncio.subprocess.Process
    errors: BinaryIO

    @property
    def out(self) -> asyncio.StreamReader:
        assert self.process.stdout is not None  # noqa: S101  (it is a pipe)
        return self.process.stdout

    async def require_end(self, *, whole: bool = True) -> None:
        """Raises WorkerFailed, with its last words, unless it ended well and its work is `whole`."""
        code = await self.process.wait()
        if code == 0 and whole:
            return
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - LAST_WORDS))
        words = self.errors.read().decode(errors="replace").strip().splitlines()
        raise WorkerFailed(
            f"the worker ended with code {code}" + (f": {words[-1]}" if words else "")
        )


class WorkerProcesses:
    """Implements `Deleter` by child processes."""

    async def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]:
        """What became of each folder, as it goes. Raises WorkerFailed."""
        async with _started(order, here, limit=MOST_LINE_BYTES) as worker:
            said = 0
            async for line in worker.out:
                said += 1
                yield FolderResult.model_validate_json(line)
            await worker.require_end(whole=said == len(order.folders))

    @asynccontextmanager
    async def archive(self, order: Order, here: FolderHere | None) -> AsyncIterator[Archive]:
        """Raises NotFound, and Conflict for a checkpoint that cannot be read."""
        async with _started(order, here, limit=PIECE) as worker:
            head = await worker.out.readline()
            if not head:
                await worker.require_end(whole=False)
            said = orjson.loads(head)
            if said.get("code") == NotFound.code:
                raise NotFound("files of checkpoint", order.folders[0])
            if "error" in said:
                raise Conflict(f"checkpoint {order.folders[0]} cannot be read: {said['error']}")
            yield Archive(worker)


@asynccontextmanager
async def _started(order: Order, here: FolderHere | None, *, limit: int) -> AsyncIterator[_Worker]:
    """A worker that ends with the block, however that ends. Its order goes by its input: it may hold secrets.

    `limit`: bytes of its output that are read ahead.
    """
    folder = None if here is None else await asyncio.to_thread(_opened, here)
    if folder is not None:
        # It starts there: it may have no right to walk there, and nobody exchanges a directory on the way.
        storage = {"type": "directory", "container_path": "."}
        order = order.model_copy(update={"storage": storage})
    with tempfile.TemporaryFile() as errors:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "windlass.storage.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=None if folder is None else f"/proc/self/fd/{folder}",
                start_new_session=True,
                limit=limit,
            )
        finally:
            if folder is not None:
                os.close(folder)
        try:
            await _give(process, order)
            yield _Worker(process, errors)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            await process.wait()


def _opened(here: FolderHere) -> int:
    """Raises InvalidState."""
    try:
        return open_folder(here)
    except OSError as error:
        path = "/".join((here.root, *here.below))
        raise InvalidState(
            f"checkpoint storage {path} cannot be opened on the master: {error.strerror}"
        ) from error


async def _give(process: asyncio.subprocess.Process, order: Order) -> None:
    if process.stdin is not None:
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(order.model_dump_json().encode())
            await process.stdin.drain()
        process.stdin.close()
