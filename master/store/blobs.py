"""Files by their content: model definitions and the like, in a folder, named by SHA-256."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from windlass.base.errors import DataDamaged, NotFound, StoreUnavailable

T = TypeVar("T")
_WAY_OUT = "it holds submitted files; take it from a backup, or submit the same files again"
_ID = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """Blobs are private to the master's user (0600), written whole or not at all, and stored once.

    `inline` does the work on the event loop's own thread, for simulations.
    """

    def __init__(self, root: Path, *, inline: bool = False) -> None:
        self._root = root
        self._inline = inline
        self._unnamed: set[str] = set()
        """That no row named at the last look."""
        self._lock = threading.Lock()

    async def put(self, content: bytes) -> str:
        """The id of the content, durable when this returns. Raises StoreUnavailable (full disk)."""
        return await self._do(lambda: self._put(content))

    async def get(self, blob_id: str) -> bytes:
        """Raises DataDamaged if it is missing or not what was stored, NotFound for what is no id."""
        return await self._do(lambda: self._get(blob_id))

    def keep(self, blob_id: str) -> None:
        """A row is about to name it."""
        with self._lock:
            self._unnamed.discard(blob_id)

    async def remove_unnamed(self, named: Collection[str]) -> int:
        """Delete what no row named at the last call nor at this one; how many there were.

        The time between two calls is what a row has to be written after its blob, and a backup to copy the blobs of
        the rows that it has.
        """
        return await self._do(lambda: self._remove_unnamed(named))

    def _remove_unnamed(self, named: Collection[str]) -> int:
        unnamed = {"".join(path.parts[-2:]) for path in self._root.glob("??/*")} - set(named)
        removed = 0
        for blob_id in sorted(filter(_ID.fullmatch, unnamed)):
            with self._lock:
                if blob_id in self._unnamed:
                    blob_path(self._root, blob_id).unlink(missing_ok=True)
                    removed += 1
        with self._lock:
            self._unnamed = unnamed
        return removed

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return work() if self._inline else await asyncio.to_thread(work)
        except OSError as error:
            raise StoreUnavailable(f"cannot use {self._root}: {error.strerror}") from error

    def _path(self, blob_id: str) -> Path:
        if not _ID.fullmatch(blob_id):
            raise NotFound("blob", blob_id)
        return blob_path(self._root, blob_id)

    def _get(self, blob_id: str) -> bytes:
        path = self._path(blob_id)
        file = "/".join(path.parts[-3:])
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise DataDamaged(
                f"{file} is missing in the master's data folder: {_WAY_OUT}"
            ) from None
        if hashlib.sha256(content).hexdigest() != blob_id:
            raise DataDamaged(f"{file} in the master's data folder is damaged: {_WAY_OUT}")
        return content

    def _put(self, content: bytes) -> str:
        blob_id = hashlib.sha256(content).hexdigest()
        path = self._path(blob_id)
        self.keep(blob_id)
        if path.exists() and path.read_bytes() == content:
            return blob_id
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
            raise
        for directory in (path.parent, self._root):
            _sync_directory(directory)
        return blob_id


def blob_path(root: Path, blob_id: str) -> Path:
    return root / blob_id[:2] / blob_id[2:]


def _sync_directory(path: Path) -> None:
    """A rename is durable once its directory is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
