"""Storage in a bucket: one object for a file, `<prefix>/<folder>/<name>`.

An empty directory is an empty object whose key ends in "/", as consoles of S3 and the published client have it. Other
directories follow from the names of files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.base.errors import NotFound, StorageError, StorageUnreachable
from windlass.storage import local_files
from windlass.storage.base import (
    EVERYTHING,
    CheckpointNotFound,
    Contents,
    Done,
    Sizes,
    Storage,
    folder_parts,
    parents_of,
)
from windlass.storage.buckets import object_transfers
from windlass.storage.buckets.bucket import Bucket
from windlass.storage.buckets.problems import MissingObject, told
from windlass.storage.globs import matching
from windlass.storage.local_problems import told as local_told
from windlass.storage.parallel import run_all

if TYPE_CHECKING:
    from obstore import ObjectMeta

LISTED_AT_ONCE = 1_000
SMALL_AT_ONCE = 16
LARGE_AT_ONCE = 2
DELETED_AT_ONCE = 1_000
DELETE_TRIES = 3
DELETE_ROUNDS = 3
"""A listing may be older than what somebody has just written."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    key: str
    size: int
    tag: str
    """Changes with the content."""
    modified: datetime


@dataclass(frozen=True, slots=True)
class FolderListing:
    """What lies in a folder."""

    objects: Mapping[str, StoredObject]
    """By name."""
    markers: frozenset[str]
    """Directories that have an object of their own; "" is the folder itself."""

    def sizes(self) -> dict[str, int]:
        directories = (parents_of(self.objects) | parents_of(self.markers) | self.markers) - {""}
        found = dict.fromkeys(directories, 0)
        found.update((name, stored.size) for name, stored in self.objects.items())
        return dict(sorted(found.items()))


class ObjectStorage(Storage):
    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.where = bucket.place.where

    def files(self, folder: str) -> dict[str, int]:
        return self._existing(folder).sizes()

    def _store(self, origin: int, folder: str, sizes: Sizes, done: Done) -> None:
        for name in sizes:
            _require_key(name)
        there = self._listing(folder)
        key = self._bucket.key(folder)

        def send(name: str) -> None:
            stored = there.objects.get(name)
            object_transfers.upload_file(self._bucket, f"{key}/{name}", origin, name, stored, done)

        _for_each_file(send, sizes)
        for name in sorted(n for n in sizes if n.endswith("/")):
            if name not in parents_of(sizes) and name not in there.markers:
                self._mark(f"{key}/{name}")

    @contextmanager
    def _contents(self, folder: str) -> Iterator[Contents]:
        listing = self._existing(folder)

        def copy(target: int, sizes: Sizes, done: Done) -> None:
            def fetch(name: str) -> None:
                stored = listing.objects[name]
                object_transfers.download_file(self._bucket, stored, target, name, done)

            _for_each_file(fetch, sizes)

        yield Contents(listing.sizes(), copy)

    def read(self, folder: str, name: str) -> Iterator[bytes | memoryview]:
        folder_parts(folder)
        folder_parts(name)
        try:
            yield from object_transfers.read(self._bucket, f"{self._bucket.key(folder)}/{name}")
        except MissingObject:
            raise NotFound("file", f"{folder}/{name}") from None

    def upload_file(self, source: Path, folder: str, name: str) -> None:
        folder_parts(folder)
        folder_parts(name)
        _require_key(name)
        key = f"{self._bucket.key(folder)}/{name}"
        with local_told(str(source.parent)), local_files.opened(source.parent) as origin:
            object_transfers.upload_file(
                self._bucket, key, origin, source.name, None, lambda count: None
            )

    def write(self, folder: str, name: str, data: bytes) -> None:
        import obstore

        folder_parts(folder)
        folder_parts(name)
        _require_key(name)
        key = f"{self._bucket.key(folder)}/{name}"
        with told(self._bucket.place, f"{folder}/{name}"):
            obstore.put(self._bucket.store, key, data, use_multipart=False)

    def delete(self, folder: str, globs: Collection[str] = EVERYTHING) -> dict[str, int]:
        folder_parts(folder)
        whole = bool(set(globs) & set(EVERYTHING))
        for _ in range(DELETE_ROUNDS):
            listing = self._listing(folder)
            sizes = listing.sizes()
            doomed = set(sizes) if whole else matching(sizes, globs)
            gone = {*doomed, *([""] if whole or doomed == set(sizes) else [])}
            keys = [listing.objects[name].key for name in sorted(doomed & listing.objects.keys())]
            markers = sorted(gone & listing.markers, reverse=True)
            if not keys and not markers:
                return {name: size for name, size in sizes.items() if name not in doomed}
            self._delete_keys(keys)
            for marker in markers:
                self._unmark(f"{self._bucket.key(folder)}/{marker}")
        raise StorageError(
            f"{self.where}/{folder}: some files are still there after they were deleted: does somebody "
            "write to it? Try again"
        )

    def _delete_keys(self, keys: list[str]) -> None:
        import obstore

        for start in range(0, len(keys), DELETED_AT_ONCE):
            some = keys[start : start + DELETED_AT_ONCE]
            for left in reversed(range(DELETE_TRIES)):
                try:
                    with told(self._bucket.place):
                        obstore.delete(self._bucket.store, some)
                    break
                except MissingObject:  # somebody was faster; the next listing says what is left
                    break
                except StorageUnreachable:  # obstore does not send a batch again
                    if left == 0:
                        raise

    def _mark(self, key: str) -> None:
        import obstore

        with told(self._bucket.place):
            obstore.put(self._bucket.store_at(key.rstrip("/")), "", b"", use_multipart=False)

    def _unmark(self, key: str) -> None:
        import obstore

        if self._bucket.delete_marker is not None:
            self._bucket.delete_marker(key.rstrip("/"))
            return
        try:
            with told(self._bucket.place):
                obstore.delete(self._bucket.store_at(key.rstrip("/")), "")
        except MissingObject:
            pass

    def _existing(self, folder: str) -> FolderListing:
        listing = self._listing(folder)
        if not listing.objects and not listing.markers:
            raise CheckpointNotFound(folder)
        return listing

    def _listing(self, folder: str) -> FolderListing:
        folder_parts(folder)
        key = self._bucket.key(folder)
        objects: dict[str, StoredObject] = {}
        markers: set[str] = set()
        for meta in self._list(key):
            name = meta["path"].removeprefix(key).lstrip("/")
            if not name:
                markers.add("")
            else:
                objects[name] = StoredObject(
                    meta["path"], meta["size"], meta["e_tag"] or "", meta["last_modified"]
                )
        # obstore drops the "/" at the end of a key: which of the empty ones are directories?
        directories = parents_of(objects)
        empty = {name for name, stored in objects.items() if stored.size == 0}
        marked = {name for name in empty if f"{name}/" in directories}
        marked |= self._directories_among(key, empty - marked)
        markers |= {f"{name}/" for name in marked}
        for name in marked:
            del objects[name]
        return FolderListing(objects, frozenset(markers))

    def _list(self, key: str) -> Iterator[ObjectMeta]:
        import obstore

        with told(self._bucket.place):
            for some in obstore.list(self._bucket.store, key, chunk_size=LISTED_AT_ONCE):
                yield from some

    def _directories_among(self, key: str, names: set[str]) -> set[str]:
        import obstore

        found: set[str] = set()
        for parent in {name.rpartition("/")[0] for name in names}:
            place = f"{key}/{parent}" if parent else key
            with told(self._bucket.place):
                result = obstore.list_with_delimiter(self._bucket.store, place)
            found |= {path.removeprefix(f"{key}/") for path in result["common_prefixes"]}
        return found & names


def _for_each_file(job: Callable[[str], None], sizes: Sizes) -> None:
    """Small ones many at a time, large ones few: their parts are sent at the same time, and lie in memory."""
    files = sorted(name for name in sizes if not name.endswith("/"))
    small = [name for name in files if sizes[name] <= object_transfers.PART]
    large = [name for name in files if sizes[name] > object_transfers.PART]
    run_all((partial(job, name) for name in small), count=SMALL_AT_ONCE)
    run_all((partial(job, name) for name in large), count=LARGE_AT_ONCE)


def _require_key(name: str) -> None:
    """Raises StorageError for what no key can be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise StorageError(
            f"{name!r}: the name of a file in a bucket must be UTF-8; rename it"
        ) from None
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise StorageError(
            f"{name!r}: the name of a file in a bucket cannot have control characters; rename it"
        )
