"""Objects of a storage, kept on the disk of this node when they have been read once."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from windlass.base.errors import StorageError, StorageFull
from windlass.core._info import get_cluster_info
from windlass.core._storage import build_storage
from windlass.core.data._quota import PART, Quota, unlock
from windlass.storage import Storage
from windlass.storage.local_problems import told
from windlass.storage.opening import storage_section

_DIRECTORIES = ("shared_fs", "directory")


class ReadCache:
    """Reads files of a storage through a directory that all processes of a node may share.

    `source`: a path or URL (`s3://bucket/prefix`), or a dictionary like the section `checkpoint_storage`.
    `max_bytes` bounds the directory, with what is being fetched; the least recently opened files are evicted.
    A file is fetched by one process while the others that want it wait, and is there whole or not at all. It is not
    looked at again in the storage: data that changes needs new names.
    An object of this class may be sent to other processes, which open the storage for themselves.
    """

    def __init__(
        self, source: str | Mapping[str, Any], directory: str | Path, *, max_bytes: int
    ) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be 1 or more, not {max_bytes}")
        self.directory = Path(directory)
        self.max_bytes = max_bytes
        self._source = source
        self._pid = os.getpid()
        self._opened: Storage | None = None

    def read(self, folder: str, name: str) -> bytes:
        """The content of a file. Raises NotFound, StorageError, and StorageFull where `max_bytes` is too small."""
        with self.open(folder, name) as file:
            return file.read()

    def open(self, folder: str, name: str) -> BinaryIO:
        """A file, to read. It can be read to its end also when the cache removes it meanwhile."""
        storage = self._storage()
        key = "\0".join((storage.where, folder, name)).encode()
        path = self.directory / hashlib.sha256(key).hexdigest()
        with told(str(self.directory)):
            while True:
                with suppress(FileNotFoundError):
                    file = path.open("rb")
                    os.utime(file.fileno())
                    return file
                if (fetched := self._fetch(storage, folder, name, path)) is not None:
                    return fetched

    def _fetch(self, storage: Storage, folder: str, name: str, path: Path) -> BinaryIO | None:
        """None where another process had begun: look again for what became of it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        quota = Quota(self.directory, self.max_bytes)
        part = path.with_name(path.name + PART)
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if not _is_at(file, part):
                    return None
                try:
                    if path.exists():
                        quota.discard(part)
                        return None
                    _fill(quota, file, storage, folder, name)
                    reader = part.open("rb")
                    quota.keep(part, path)
                except BaseException:
                    quota.discard(part)
                    raise
                return reader
            finally:
                unlock(file.fileno())

    def _storage(self) -> Storage:
        if (
            os.getpid() != self._pid
            and storage_section(self._source).get("type") not in _DIRECTORIES
        ):
            # The library of buckets would wait for ever for its threads, which a fork does not copy.
            raise StorageError(
                "a forked process cannot read a bucket: start the workers of a DataLoader with "
                'multiprocessing_context="forkserver"'
            )
        if self._opened is None:
            self._opened = build_storage(
                self._source, on_cluster=get_cluster_info() is not None, environ=os.environ
            )
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _pid=os.getpid())


def _fill(quota: Quota, file: BinaryIO, storage: Storage, folder: str, name: str) -> None:
    quota.reserve(file.fileno(), 0)  # removes parts of processes that died
    size = 0
    for piece in storage.read(folder, name):
        size += len(piece)
        try:
            quota.reserve(file.fileno(), size)
        except StorageFull as problem:
            raise StorageFull(f"{storage.where}/{folder}/{name}: {problem}") from None
        file.write(piece)
        file.flush()
    os.fsync(file.fileno())  # a power cut after the rename must not leave half of it


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether this open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
