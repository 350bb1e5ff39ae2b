"""Storing one checkpoint from several ranks: who uploads which file, and what all must agree on."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windlass.core._distributed import DistributedContext
from windlass.sdk.wire import Json
from windlass.storage import Selector, Storage, list_files, progress_lines, selected

log = logging.getLogger("windlass.core")

METADATA_FILE = "metadata.json"


class Shards:
    """All ranks make these calls in the same order."""

    def __init__(self, dist: DistributedContext, storage: Storage) -> None:
        self._dist = dist
        self._storage = storage

    def upload(
        self, source: Path | None, storage_id: str, metadata: Json, selector: Selector | None
    ) -> tuple[dict[str, int], Json]:
        """The union of the directories. Returns all files of it and the metadata of all ranks."""
        names, all_files = self._share(source, selector)
        merged = self.merged_metadata(metadata)
        with self.told_to_all("upload their part"):
            if source is not None and names:
                upload(self._storage, source, storage_id, names)
        return all_files, merged

    def _share(
        self, source: Path | None, selector: Selector | None
    ) -> tuple[dict[str, int], dict[str, int]]:
        """What this rank uploads, and the files of all."""
        # Ranks of one machine often share a directory: then only the first of them uploads it.
        identity = None
        if source is not None:
            status = source.stat()
            identity = (self._dist.cross_rank, status.st_dev, status.st_ino)
        identities = self._dist.allgather(identity)
        if all(i is None for i in identities):
            raise ValueError("upload(None, shard=True) from all ranks would store nothing")
        first = identity is not None and identities.index(identity) == self._dist.rank
        uploads = source is not None and (selector is not None or first)
        names: dict[str, int] = {}
        with self.told_to_all("read their directory"):
            if source is not None and uploads:
                names = selected(list_files(source), selector)
        all_files, shared = merge_files(self._dist.allgather(names))
        # All ranks write the metadata of all, at the end.
        shared.pop(METADATA_FILE, None)
        names.pop(METADATA_FILE, None)
        return self._without_duplicates(source, names, shared), all_files

    def _without_duplicates(
        self, source: Path | None, names: Mapping[str, int], shared: Mapping[str, list[int]]
    ) -> dict[str, int]:
        """What this rank uploads: of a file that several ranks have, only the lowest rank's. They must be equal."""
        digests = {
            name: _digest(source / name)
            for name, ranks in shared.items()
            if source is not None and self._dist.rank in ranks
        }
        everywhere = self._dist.allgather(digests)
        different = {
            name: ranks
            for name, ranks in shared.items()
            if len({everywhere[rank][name] for rank in ranks}) > 1
        }
        if different:
            raise RuntimeError(f"ranks have different files of the same name: {different}")
        return {
            name: size
            for name, size in names.items()
            if name not in shared or min(shared[name]) == self._dist.rank
        }

    def merged_metadata(self, metadata: Json) -> Json:
        merged, conflicts = merge_metadata(self._dist.allgather(metadata))
        if conflicts:
            raise RuntimeError(f"ranks give different values for metadata: {conflicts}")
        return merged

    @contextmanager
    def told_to_all(self, what: str) -> Iterator[None]:
        """A rank that fails in the block says so to the others, who would wait for it for ever, and who raise too."""
        try:
            yield
        except BaseException as error:
            self._dist.allgather(f"{type(error).__name__}: {error}")
            raise
        outcomes = self._dist.allgather(None)
        failed = [f"rank {rank}: {text}" for rank, text in enumerate(outcomes) if text is not None]
        if failed:
            raise RuntimeError(f"other ranks could not {what}: " + "; ".join(failed))


def upload(storage: Storage, source: Path, storage_id: str, names: Collection[str]) -> None:
    """With a line in the log now and then."""
    lines = progress_lines(log.info, f"uploading checkpoint {storage_id}")
    storage.upload(source, storage_id, names, progress=lines)


def _digest(path: Path) -> str:
    if path.is_dir():
        return "directory"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def merge_metadata(
    parts: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The union of all ranks' metadata, dictionaries merged key by key; and path -> ranks for unequal values."""
    merged: dict[str, Any] = {}
    owners: dict[str, list[int]] = {}
    conflicts: dict[str, list[int]] = {}
    for rank, part in enumerate(parts):
        _merge_into(merged, part, rank, "", owners, conflicts)
    return merged, conflicts


def _merge_into(
    merged: dict[str, Any],
    part: Mapping[str, Any],
    rank: int,
    prefix: str,
    owners: dict[str, list[int]],
    conflicts: dict[str, list[int]],
) -> None:
    for key, value in part.items():
        path = f"{prefix}{key}"
        owners.setdefault(path, []).append(rank)
        if key not in merged:
            merged[key] = {} if isinstance(value, Mapping) else value
        elif isinstance(merged[key], dict) != isinstance(value, Mapping) or (
            not isinstance(value, Mapping) and merged[key] != value
        ):
            conflicts[path] = list(owners[path])
            continue
        if isinstance(value, Mapping):
            _merge_into(merged[key], value, rank, f"{path}/", owners, conflicts)


def merge_files(
    parts: Sequence[Mapping[str, int]],
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The union of all ranks' files (names ending in "/" are directories); and file -> ranks where several have it.

    A name that is a file on one rank and a directory on another is a conflict as well.
    """
    merged: dict[str, int] = {}
    owners: dict[str, list[int]] = {}
    files: set[str] = set()
    for rank, part in enumerate(parts):
        for name, size in part.items():
            merged[name] = size
            owners.setdefault(name.rstrip("/"), []).append(rank)
            if not name.endswith("/"):
                files.add(name)
    return merged, {name: owners[name] for name in sorted(files) if len(owners[name]) > 1}
