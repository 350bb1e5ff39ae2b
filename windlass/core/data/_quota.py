"""Keeping the files of a cache directory within a bound, together with the other processes that use it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import StorageFull

PART = ".part"
"""Ends the name of a file that is being fetched. Its writer holds a lock on it: without one, the writer has died."""
_TOTAL = "total"
_KEPT_PERCENT = 90
"""How full a cache is after an eviction: evicting for each file would list the directory each time."""


@dataclass(frozen=True, slots=True)
class Cached:
    """A file of the cache."""

    path: Path
    size: int
    used_ns: int
    """When it was last opened."""
    is_part: bool = False


def choose_evicted(files: Iterable[Cached], wanted: int, max_bytes: int) -> list[Cached]:
    """The least recently used files without which `wanted` more bytes fit, and a tenth stays free. Parts stay."""
    everything = list(files)
    total = sum(file.size for file in everything)
    evicted: list[Cached] = []
    most = max(max_bytes * _KEPT_PERCENT // 100, wanted)
    for file in sorted((f for f in everything if not f.is_part), key=lambda f: f.used_ns):
        if total + wanted <= most:
            break
        evicted.append(file)
        total -= file.size
    return evicted


class Quota:
    """The bytes of one directory. Each call may be made by any thread of any process of this machine."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes

    def reserve(self, part: int, size: int) -> None:
        """Make an open part `size` bytes long, evicting others where that is too much. Raises StorageFull."""
        with self._locked() as total:
            wanted = size - os.fstat(part).st_size
            used = _read_total(total)
            if used is None or used + wanted > self._max_bytes:
                used = self._evict(wanted)
            # Counted first: after a crash the sum is too large at worst, and is then found anew.
            _write_total(total, used + wanted)
            os.truncate(part, size)

    def keep(self, part: Path, path: Path) -> None:
        """Make a file of the cache of what has been written."""
        with self._locked():
            part.rename(path)

    def discard(self, part: Path) -> None:
        with self._locked() as total:
            size = part.stat().st_size
            part.unlink()
            if (used := _read_total(total)) is not None:
                _write_total(total, max(used - size, 0))

    def _evict(self, wanted: int) -> int:
        """Returns what is still there."""
        files = list(self._files())
        evicted = choose_evicted(files, wanted, self._max_bytes)
        for file in evicted:
            file.path.unlink(missing_ok=True)
        left = sum(file.size for file in files) - sum(file.size for file in evicted)
        if left + wanted > self._max_bytes:
            raise StorageFull(
                f"cache {self._directory} is limited to {self._max_bytes} bytes: that is less than the files that are "
                "read at the same time; raise max_bytes, or read fewer at once"
            )
        return left

    def _files(self) -> Iterator[Cached]:
        """What is there, without the parts that nobody writes any more: these are removed."""
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name == _TOTAL:
                    continue
                path = self._directory / entry.name
                is_part = entry.name.endswith(PART)
                with suppress(FileNotFoundError):
                    if is_part and _remove_if_abandoned(path):
                        continue
                    status = path.stat()
                    yield Cached(path, status.st_size, status.st_mtime_ns, is_part)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        file = os.open(self._directory / _TOTAL, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            unlock(file)
            os.close(file)


def unlock(file: int) -> None:
    """Said, not left to closing: a child that was forked meanwhile has the file open, too."""
    fcntl.flock(file, fcntl.LOCK_UN)


def _remove_if_abandoned(part: Path) -> bool:
    file = os.open(part, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        # By now it may have become a file of the cache, and another part have its name.
        if os.path.samestat(os.fstat(file), part.stat()):
            part.unlink()
        return True
    finally:
        unlock(file)
        os.close(file)


def _read_total(file: int) -> int | None:
    """None for a new cache, and after a crash in mid-write."""
    content = os.pread(file, 32, 0)
    return int(content) if len(content) == 20 and content.isdigit() else None


def _write_total(file: int, size: int) -> None:
    os.pwrite(file, b"%020d" % size, 0)
