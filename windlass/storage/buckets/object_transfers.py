"""Moving one file to or from a bucket, in parts, in bounded memory.

A file of more than one part is sent as a multipart upload and fetched by ranges, several at a time. What was fetched
of a large file before a failure stays in a hidden `.part` file beside it, and the next call goes on from there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from windlass.base.errors import StorageError, StorageUnreachable
from windlass.storage import local_files
from windlass.storage.buckets.bucket import Bucket
from windlass.storage.buckets.problems import told
from windlass.storage.parallel import in_order, workers

if TYPE_CHECKING:
    from datetime import datetime

    from obstore import Bytes

PART = 8 * 1024 * 1024
PARTS_AT_ONCE = 8
MOST_PARTS = 9_000
"""S3 takes 10,000."""
RANGE = 4 * 1024 * 1024
RANGES_AT_ONCE = 4
ANSWER_TRIES = 3
_MIB = 1024 * 1024
_MD5 = re.compile(r'^"?([0-9a-f]{32})(?:-(\d+))?"?$')
_ZEROS = bytes(RANGE)


class Stored(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def tag(self) -> str: ...
    @property
    def modified(self) -> datetime: ...


def upload_file(
    bucket: Bucket,
    key: str,
    origin: int,
    name: str,
    there: Stored | None,
    done: Callable[[int], None],
) -> None:
    """Send a file of the directory `origin`, unless the object that is there has its content."""
    import obstore

    with local_files.open_file(origin, name) as file:
        status = os.fstat(file)
        if there is not None and _is_same(file, status, there):
            done(status.st_size)
            return
        size = status.st_size
        with told(bucket.place, name):
            if size <= PART:
                obstore.put(bucket.store, key, _read(file, 0, size, name), use_multipart=False)
                done(size)
            else:
                obstore.put(
                    bucket.store,
                    key,
                    _parts(file, size, name, done),
                    chunk_size=part_size(size),
                    max_concurrency=PARTS_AT_ONCE,
                )


def part_size(size: int) -> int:
    """Whole MiB, and few enough parts."""
    return max(PART, -(-size // MOST_PARTS // _MIB) * _MIB)


def _parts(file: int, size: int, name: str, done: Callable[[int], None]) -> Iterator[bytes]:
    step = part_size(size)
    for offset in range(0, size, step):
        data = _read(file, offset, min(step, size - offset), name)
        yield data
        done(len(data))


def _read(file: int, offset: int, count: int, name: str) -> bytes:
    pieces: list[bytes] = []
    while count > 0:
        piece = os.pread(file, count, offset)
        if not piece:
            raise OSError(errno.EIO, "became shorter while it was sent", name)
        pieces.append(piece)
        offset += len(piece)
        count -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _is_same(file: int, status: os.stat_result, there: Stored) -> bool:
    """By the tag where it is a digest of the content; else by size and time, as other tools do."""
    if there.size != status.st_size:
        return False
    found = _MD5.match(there.tag)
    if found is None:
        return there.modified.timestamp() > status.st_mtime + 1
    digest, parts = found.groups()
    return digest == (
        _digest_of_parts(file, status.st_size) if parts else _digest(file, 0, status.st_size)
    )


def _digest(file: int, offset: int, count: int) -> str:
    """In pieces: another tool may have stored a file of gigabytes as one part."""
    digest = hashlib.md5(usedforsecurity=False)
    for start in range(offset, offset + count, PART):
        digest.update(_read(file, start, min(PART, offset + count - start), ""))
    return digest.hexdigest()


def _digest_of_parts(file: int, size: int) -> str:
    step = part_size(size)
    digests = [_digest(file, start, min(step, size - start)) for start in range(0, size, step)]
    return hashlib.md5(b"".join(map(bytes.fromhex, digests)), usedforsecurity=False).hexdigest()


def download_file(
    bucket: Bucket, stored: Stored, target: int, name: str, done: Callable[[int], None]
) -> None:
    """Write an object into the directory `target`, unless a file of its size and time is there."""
    found = local_files.status_of(target, name)
    modified = int(stored.modified.timestamp() * 1e9)
    if (
        found is not None
        and stat.S_ISREG(found.st_mode)
        and found.st_size == stored.size
        and found.st_mtime_ns == modified
    ):
        done(stored.size)
    elif stored.size <= RANGE:
        with local_files.replacing(target, name) as file:
            _write(file, 0, _fetch(bucket, stored, 0, stored.size))
            os.utime(file, ns=(modified, modified))
        done(stored.size)
    else:
        _download_large(bucket, stored, target, name, done)


def _download_large(
    bucket: Bucket, stored: Stored, target: int, name: str, done: Callable[[int], None]
) -> None:
    with local_files.resumable(target, name, f"{stored.key} {stored.tag} {stored.size}") as (
        file,
        have,
    ):
        start = min(have, stored.size) // RANGE * RANGE
        done(start)
        offset = start
        for piece in _ranges(bucket, stored, start):
            _write(file, offset, piece)
            offset += len(piece)
            done(len(piece))
        os.ftruncate(file, stored.size)
        modified = int(stored.modified.timestamp() * 1e9)
        os.utime(file, ns=(modified, modified))


def read(bucket: Bucket, key: str) -> Iterator[memoryview]:
    import obstore

    with told(bucket.place, key):
        result = obstore.get(bucket.store, key)
        size, tag = result.meta["size"], result.meta["e_tag"] or ""
        modified = result.meta["last_modified"]
        if size <= RANGE:
            yield memoryview(result.bytes())
            return
    del result
    for piece in _ranges(bucket, _Object(key, size, tag, modified), 0):
        yield memoryview(piece)


class _Object:
    def __init__(self, key: str, size: int, tag: str, modified: datetime) -> None:
        self.key, self.size, self.tag, self.modified = key, size, tag, modified


def _ranges(bucket: Bucket, stored: Stored, start: int) -> Iterator[Bytes]:
    """The object from `start` on, in order; some ranges are fetched ahead."""
    jobs = (
        partial(_fetch, bucket, stored, offset, min(offset + RANGE, stored.size))
        for offset in range(start, stored.size, RANGE)
    )
    with workers(RANGES_AT_ONCE) as pool:
        yield from in_order(pool, jobs, ahead=RANGES_AT_ONCE)


def _fetch(bucket: Bucket, stored: Stored, start: int, end: int) -> Bytes:
    """obstore tries requests again, but not answers that break off."""
    for _ in range(ANSWER_TRIES - 1):
        try:
            return _fetch_once(bucket, stored, start, end)
        except StorageUnreachable:
            continue
    return _fetch_once(bucket, stored, start, end)


def _fetch_once(bucket: Bucket, stored: Stored, start: int, end: int) -> Bytes:
    import obstore

    with told(bucket.place, stored.key):
        options: obstore.GetOptions = {"if_match": stored.tag} if stored.tag else {}
        if start > 0 or end < stored.size:
            options["range"] = (start, end)
        piece = obstore.get(bucket.store, stored.key, options=options).bytes()
    if len(piece) != end - start:
        raise StorageError(
            f"{bucket.place.where}: {stored.key}: {len(piece)} of {end - start} bytes came"
        )
    return piece


def _write(file: int, offset: int, data: Bytes) -> None:
    """Zeros are left out: a sparse file stays one. Whoever calls sets the length at the end."""
    view = memoryview(data)
    if bytes(view[:64]) == _ZEROS[: len(view[:64])] and view == _ZEROS[: len(view)]:
        os.ftruncate(file, max(offset + len(view), os.fstat(file).st_size))
        return
    while view:
        written = os.pwrite(file, view, offset)
        offset += written
        view = view[written:]
