"""Saving and restoring: files go to storage first, then the master is told, so a reported checkpoint always exists."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from windlass.core._distributed import DistributedContext
from windlass.core._merge import merge_files, merge_metadata
from windlass.core._session import TaskSession
from windlass.core._storage import DirectoryStorage, Selector, list_files
from windlass.sdk.wire import Json, to_wire

log = logging.getLogger("windlass.core")

METADATA_FILE = "metadata.json"


class DownloadMode(enum.Enum):
    """Who takes part in `download()` and `restore_path()`."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    """All ranks call in step; one per machine does the work. The default."""
    NoSharedDownload = "NO_SHARED_DOWNLOAD"
    """Each caller on its own."""


class CheckpointReporter(Protocol):
    """Who is told of checkpoints: the master, or nobody."""

    def stored(self, storage_id: str, resources: Mapping[str, int], metadata: Json) -> None: ...

    def deleted(self, storage_id: str) -> None: ...

    def metadata(self, storage_id: str) -> Json: ...


class MasterReporter:
    """Tells the master. `before` runs first: the metrics that led to a checkpoint must not be lost if we die next."""

    def __init__(
        self,
        session: TaskSession,
        task_id: str,
        allocation_id: str,
        storage_backend_id: int | None,
        before: Callable[[], None],
    ) -> None:
        self._session = session
        self._task_id = task_id
        self._allocation_id = allocation_id
        self._storage_backend_id = storage_backend_id
        self._before = before

    def stored(self, storage_id: str, resources: Mapping[str, int], metadata: Json) -> None:
        self._before()
        self._session.post(
            "/api/v1/checkpoints",
            {
                "uuid": storage_id,
                "taskId": self._task_id,
                "allocationId": self._allocation_id,
                "metadata": metadata,
                "resources": {name: str(size) for name, size in resources.items()},
                "training": {},
                "state": "STATE_COMPLETED",
                "reportTime": datetime.now(timezone.utc).isoformat(),
                "storageId": self._storage_backend_id,
            },
        )
        log.info("checkpoint %s reported", storage_id)

    def deleted(self, storage_id: str) -> None:
        patch = {"uuid": storage_id, "resources": {"resources": {}}}
        self._session.request("PATCH", "/api/v1/checkpoints", body={"checkpoints": [patch]})

    def metadata(self, storage_id: str) -> Json:
        checkpoint = self._session.get(f"/api/v1/checkpoints/{storage_id}").get("checkpoint") or {}
        return dict(checkpoint.get("metadata") or {})


class LocalReporter:
    """Off the cluster: nobody to tell; metadata is read back from the checkpoint itself."""

    def __init__(self, storage: DirectoryStorage) -> None:
        self._storage = storage

    def stored(self, storage_id: str, resources: Mapping[str, int], metadata: Json) -> None:
        log.info("checkpoint %s saved in %s", storage_id, self._storage.base)

    def deleted(self, storage_id: str) -> None:
        log.info("checkpoint %s deleted", storage_id)

    def metadata(self, storage_id: str) -> Json:
        text = (self._storage.existing(storage_id) / METADATA_FILE).read_text()
        return dict(json.loads(text))


class CheckpointContext:
    """`core_context.checkpoint`."""

    def __init__(
        self, dist: DistributedContext, storage: DirectoryStorage, reporter: CheckpointReporter
    ) -> None:
        self._dist = dist
        self._storage = storage
        self._reporter = reporter

    @contextlib.contextmanager
    def store_path(
        self, metadata: dict[str, Any] | None = None, *, shard: bool = False
    ) -> Iterator[tuple[Path, str]]:
        """Yields (directory, storage id) to write into; after the block the checkpoint is complete and reported.

        `metadata` needs `steps_completed`. With `shard=False` only the chief may call; with `shard=True` all ranks
        must, and they share the directory. A block that raises leaves no checkpoint behind.
        """
        plain = _checked(metadata, required=self._dist.rank == 0)
        if shard:
            with self._store_sharded(plain) as pair:
                yield pair
            return
        self._only_chief("store_path")
        storage_id = str(uuid.uuid4())
        path = self._storage.prepare(storage_id)
        try:
            yield path, storage_id
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        _write_metadata(path, plain)
        self._reporter.stored(storage_id, list_files(path), plain)

    @contextlib.contextmanager
    def _store_sharded(self, metadata: Json) -> Iterator[tuple[Path, str]]:
        storage_id: str = self._dist.broadcast(str(uuid.uuid4()))
        path = self._storage.prepare(storage_id)
        try:
            yield path, storage_id
        except BaseException as error:
            # Say it to the others, who would wait for this rank for ever.
            self._dist.allgather((False, f"{type(error).__name__}: {error}"))
            raise
        outcomes = self._dist.allgather((True, metadata))
        merged = self._merged([part for _, part in _all_succeeded(outcomes)])
        if self._dist.rank == 0:
            _write_metadata(path, merged)
            self._reporter.stored(storage_id, list_files(path), merged)

    def upload(
        self,
        ckpt_dir: str | os.PathLike[str] | None,
        metadata: dict[str, Any] | None = None,
        *,
        shard: bool = False,
        selector: Selector | None = None,
    ) -> str:
        """Copy `ckpt_dir` into storage as a new checkpoint and report it. Returns its storage id.

        With `shard=True` all ranks must call (with None if they have nothing), and the checkpoint is the union of their
        directories; two different files of one name are refused. `selector` gets paths relative to `ckpt_dir`.
        """
        plain = _checked(metadata, required=self._dist.rank == 0)
        source = None if ckpt_dir is None else Path(ckpt_dir)
        if shard:
            return self._upload_sharded(source, plain, selector)
        self._only_chief("upload")
        if source is None:
            raise ValueError("upload(None) without shard=True would store nothing")
        storage_id = str(uuid.uuid4())
        _write_metadata(source, plain)
        names = _selected(source, selector)
        self._storage.upload(source, storage_id, names)
        self._reporter.stored(storage_id, names, plain)
        return storage_id

    def _upload_sharded(
        self, source: Path | None, metadata: Json, selector: Selector | None
    ) -> str:
        rank = self._dist.rank
        storage_id: str = self._dist.broadcast(str(uuid.uuid4()))
        # Ranks of one machine often share a directory: then only the first of them uploads it.
        identity = None if source is None else (source.stat().st_dev, source.stat().st_ino)
        identities = self._dist.allgather(identity)
        if all(i is None for i in identities):
            raise ValueError("upload(None, shard=True) from all ranks would store nothing")
        first = identity is not None and identities.index(identity) == rank
        uploads = source is not None and (selector is not None or first)
        names = _selected(source, selector) if source is not None and uploads else {}
        all_files, shared = merge_files(self._dist.allgather(names))
        mine = self._without_duplicates(source, names, shared)
        merged = self._merged(self._dist.allgather(metadata))
        if source is not None and uploads:
            self._storage.upload(source, storage_id, mine)
        self._dist.allgather(None)
        if rank == 0:
            path = self._storage.prepare(storage_id)
            _write_metadata(path, merged)
            all_files[METADATA_FILE] = (path / METADATA_FILE).stat().st_size
            self._reporter.stored(storage_id, all_files, merged)
        return storage_id

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
            if name != METADATA_FILE and len({everywhere[rank][name] for rank in ranks}) > 1
        }
        if different:
            raise RuntimeError(f"ranks have different files of the same name: {different}")
        return {
            name: size
            for name, size in names.items()
            if name not in shared or min(shared[name]) == self._dist.rank
        }

    def _merged(self, parts: list[Json]) -> Json:
        merged, conflicts = merge_metadata(parts)
        if conflicts:
            raise RuntimeError(f"ranks give different values for metadata: {conflicts}")
        return merged

    def download(
        self,
        storage_id: str,
        ckpt_dir: str | os.PathLike[str],
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> None:
        """Copy a checkpoint into `ckpt_dir`, which is made. Of files, those that any local rank's selector wants."""
        target = Path(ckpt_dir)
        if DownloadMode(download_mode) is DownloadMode.NoSharedDownload:
            names = _selected(self._storage.existing(storage_id), selector)
            self._storage.download(storage_id, target, names)
            return
        available = list_files(self._storage.existing(storage_id))
        wanted = {n for n in available if selector is None or selector(n)}
        everybody = self._dist.gather_local(wanted)
        if everybody is not None:
            self._storage.download(storage_id, target, set().union(*everybody))
        self._dist.broadcast_local(None)

    @contextlib.contextmanager
    def restore_path(
        self,
        storage_id: str,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> Iterator[Path]:
        """Yields a directory with the checkpoint. It is the stored one itself: read only; `selector` has no effect."""
        mode = DownloadMode(download_mode)
        del selector
        path = self._storage.existing(storage_id)
        try:
            yield path
        finally:
            if mode is DownloadMode.LocalWorkersShareDownload:
                self._dist.gather_local(None)

    def get_metadata(self, storage_id: str) -> Json:
        return self._reporter.metadata(storage_id)

    def delete(self, storage_id: str) -> None:
        """Remove a checkpoint from storage, then tell the master."""
        self._storage.delete(storage_id)
        self._reporter.deleted(storage_id)

    def _only_chief(self, call: str) -> None:
        if self._dist.rank != 0:
            raise RuntimeError(f"{call}(shard=False) was called by rank {self._dist.rank}")


def _checked(metadata: dict[str, Any] | None, *, required: bool) -> Json:
    """Metadata as JSON. Wrong metadata is refused before anything is written."""
    plain: Json = to_wire(metadata or {})
    if required and "steps_completed" not in plain:
        raise ValueError("checkpoint metadata needs 'steps_completed', the steps that it contains")
    return plain


def _all_succeeded(outcomes: list[tuple[bool, Any]]) -> list[tuple[bool, Json]]:
    failed = [f"rank {rank}: {text}" for rank, (ok, text) in enumerate(outcomes) if not ok]
    if failed:
        raise RuntimeError("other ranks could not save their part: " + "; ".join(failed))
    return outcomes


def _selected(source: Path, selector: Selector | None) -> dict[str, int]:
    return {n: s for n, s in list_files(source).items() if selector is None or selector(n)}


def _write_metadata(directory: Path, metadata: Json) -> None:
    (directory / METADATA_FILE).write_text(json.dumps(metadata, indent=2))


def _digest(path: Path) -> str:
    if path.is_dir():
        return "directory"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
