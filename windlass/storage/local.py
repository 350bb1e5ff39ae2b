"""Storage in a directory: `shared_fs` and `directory`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from windlass.base.errors import NotFound, StorageError, StorageMissing
from windlass.storage import local_files
from windlass.storage.base import (
    EVERYTHING,
    CheckpointNotFound,
    Contents,
    Done,
    Sizes,
    Storage,
    folder_parts,
)
from windlass.storage.globs import matching
from windlass.storage.local_problems import told

COPIES_AT_ONCE = 8
READ_AT_ONCE = 1024 * 1024


class LocalStorage(Storage):
    """Folders are directories `<base>/<folder>`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.where = str(base)

    def local_path(self, folder: str) -> Path:
        return self.base.joinpath(*folder_parts(folder))

    def prepare(self, folder: str) -> Path:
        """The directory of a folder, made, to write into."""
        with self._opened(folder, make=True):
            return self.local_path(folder)

    def files(self, folder: str) -> dict[str, int]:
        with self._existing(folder) as top:
            return {e.name: e.size for e in self._entries(folder, top)}

    def _entries(self, folder: str, top: int) -> Iterator[local_files.ListedFile]:
        for entry in local_files.walk(top):
            if entry.readable:
                yield entry
            else:
                import logging  # what takes long to import, and is seldom needed

                log = logging.getLogger("windlass.storage")
                log.warning("%s/%s/%s leads elsewhere: left out", self.where, folder, entry.name)

    def _store(self, origin: int, folder: str, sizes: Sizes, done: Done) -> None:
        with self._opened(folder, make=True) as top:
            for name in sorted(sizes):
                if name.endswith("/"):
                    local_files.make_directory(top, name)
            _copy(origin, top, sizes, done)

    @contextmanager
    def _contents(self, folder: str) -> Iterator[Contents]:
        with self._existing(folder) as top:
            sizes = {e.name: e.size for e in self._entries(folder, top)}
            yield Contents(sizes, partial(_copy, top))

    def read(self, folder: str, name: str) -> Iterator[bytes | memoryview]:
        folder_parts(name)
        with self._existing(folder) as top, self._open(top, folder, name) as file:
            left = os.fstat(file).st_size
            while left > 0:
                chunk = os.read(file, min(left, READ_AT_ONCE))
                if not chunk:
                    raise StorageError(f"{self.where}/{folder}/{name} became shorter while read")
                left -= len(chunk)
                yield chunk

    @contextmanager
    def _open(self, top: int, folder: str, name: str) -> Iterator[int]:
        if local_files.status_of(top, name) is None:
            raise NotFound("file", f"{folder}/{name}")
        with local_files.open_file(top, name) as file:
            yield file

    def upload_file(self, source: Path, folder: str, name: str) -> None:
        folder_parts(name)
        with (
            told(str(source.parent)),
            local_files.opened(source.parent) as origin,
            local_files.open_file(origin, source.name) as reader,
            self._opened(folder, make=True) as top,
        ):
            local_files.copy_open_file(reader, top, name)

    def write(self, folder: str, name: str, data: bytes) -> None:
        folder_parts(name)
        with (
            self._opened(folder, make=True) as top,
            local_files.replacing(top, name) as file,
            os.fdopen(os.dup(file), "wb") as writer,
        ):
            writer.write(data)

    def delete(self, folder: str, globs: Collection[str] = EVERYTHING) -> dict[str, int]:
        parts = folder_parts(folder)
        try:
            with told(self.where), local_files.opened(self.base) as base:
                if not set(globs) & set(EVERYTHING) and (left := self._delete(base, folder, globs)):
                    return left
                local_files.remove_tree(base, "/".join(parts))
        except StorageMissing:
            if not self.base.is_dir():
                raise
        return {}

    def remove_empty(self, folder: str) -> None:
        """Remove the directory of a folder if nothing is in it. No link is followed."""
        *parents, name = folder_parts(folder)
        with (
            suppress(OSError, StorageError),
            local_files.opened(self.base) as base,
            local_files.entered(base, "/".join(parents)) as parent,
        ):
            os.rmdir(name, dir_fd=parent)

    def _delete(self, base: int, folder: str, globs: Collection[str]) -> dict[str, int]:
        with local_files.entered(base, folder) as top:
            everything = [entry.name for entry in local_files.walk(top)]
            doomed = matching(everything, globs)
            for name in sorted(doomed, reverse=True):  # what is in a directory before it
                if name.endswith("/"):
                    local_files.remove_tree(top, name)
                else:
                    local_files.remove_file(top, name)
            return {entry.name: entry.size for entry in local_files.walk(top)}

    @contextmanager
    def _opened(self, folder: str, *, make: bool = False) -> Iterator[int]:
        folder_parts(folder)
        with told(self.where):
            if make:
                self.base.mkdir(parents=True, exist_ok=True)
            with (
                local_files.opened(self.base) as base,
                local_files.entered(base, folder, make=make) as top,
            ):
                yield top

    @contextmanager
    def _existing(self, folder: str) -> Iterator[int]:
        parts = folder_parts(folder)
        with told(self.where), local_files.opened(self.base) as base:
            if local_files.status_of(base, "/".join(parts)) is None:
                raise CheckpointNotFound(folder)
            with local_files.entered(base, folder) as top:
                yield top


def _copy(source: int, target: int, sizes: Sizes, done: Done) -> None:
    from windlass.storage.parallel import run_all  # threads: not for the one file of a check

    run_all(
        (
            partial(local_files.copy_file, source, target, name, done)
            for name in sorted(sizes)
            if not name.endswith("/")
        ),
        count=COPIES_AT_ONCE,
    )
