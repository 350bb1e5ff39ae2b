"""Saving and restoring: files go to storage first, then the master is told, so a reported checkpoint always exists."""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from windlass.base.errors import WindlassError
from windlass.core._distributed import DistributedContext
from windlass.core._session import TaskSession
from windlass.core._sharding import METADATA_FILE, Shards, upload
from windlass.sdk.wire import Json, to_wire
from windlass.storage import (
    CheckpointNotFound,
    Selector,
    Storage,
    list_files,
    progress_lines,
    selected,
)

log = logging.getLogger("windlass.core")


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
                "reportTime": datetime.now(UTC).isoformat(),
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

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def stored(self, storage_id: str, resources: Mapping[str, int], metadata: Json) -> None:
        log.info("checkpoint %s saved in %s", storage_id, self._storage.where)

    def deleted(self, storage_id: str) -> None:
        log.info("checkpoint %s deleted", storage_id)

    def metadata(self, storage_id: str) -> Json:
        return dict(json.loads(b"".join(self._storage.read(storage_id, METADATA_FILE))))


class CheckpointContext:
    """`core_context.checkpoint`."""

    def __init__(
        self, dist: DistributedContext, storage: Storage, reporter: CheckpointReporter
    ) -> None:
        self._dist = dist
        self._storage = storage
        self._reporter = reporter
        self._shards = Shards(dist, storage)

    @contextlib.contextmanager
    def store_path(
        self, metadata: dict[str, Any] | None = None, *, shard: bool = False
    ) -> Iterator[tuple[Path, str]]:
        """Yields (directory, storage id) to write into; after the block the checkpoint is complete and reported.

        `metadata` needs `steps_completed`. With `shard=False` only the chief may call; with `shard=True` all ranks
        must, and those of one machine share the directory. A block that raises leaves no checkpoint behind.
        """
        plain = _checked(metadata, required=self._dist.rank == 0)
        storage_id = self._new_id("store_path", shard)
        direct = self._storage.prepare(storage_id)
        path = direct or _temporary(storage_id)
        try:
            with self._forgotten_on_failure(storage_id):
                with self._shards.told_to_all("save their part") if shard else nullcontext():
                    yield path, storage_id
                if direct is None:
                    stored = self._upload(path, storage_id, plain, None, shard)
                else:
                    stored = self._complete(storage_id, plain, shard)
            self._report(storage_id, *stored)
        finally:
            if direct is None and self._dist.local_rank == 0:
                shutil.rmtree(path, ignore_errors=True)

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
        storage_id = self._new_id("upload", shard)
        with self._forgotten_on_failure(storage_id):
            stored = self._upload(source, storage_id, plain, selector, shard)
        self._report(storage_id, *stored)
        return storage_id

    def _new_id(self, call: str, shard: bool) -> str:
        own = str(uuid.uuid4())
        if shard:
            return str(self._dist.broadcast(own))
        if self._dist.rank != 0:
            raise RuntimeError(f"{call}(shard=False) was called by rank {self._dist.rank}")
        return own

    def _upload(
        self,
        source: Path | None,
        storage_id: str,
        metadata: Json,
        selector: Selector | None,
        shard: bool,
    ) -> tuple[dict[str, int], Json]:
        """Returns all files and the metadata of all."""
        if shard:
            names, merged = self._shards.upload(source, storage_id, metadata, selector)
            size = self._write_metadata(storage_id, merged, shard)
            return {**names, METADATA_FILE: size}, merged
        if source is None:
            raise ValueError("upload(None) without shard=True would store nothing")
        (source / METADATA_FILE).write_bytes(_metadata_file(metadata))
        names = selected(list_files(source), selector)
        # The metadata last: a checkpoint that has it is whole.
        last = names.keys() & {METADATA_FILE}
        upload(self._storage, source, storage_id, names.keys() - last)
        if last:
            self._write_metadata(storage_id, metadata, shard)
        return names, metadata

    def _complete(
        self, storage_id: str, metadata: Json, shard: bool
    ) -> tuple[dict[str, int], Json]:
        """What was written in place gets its metadata."""
        merged = self._shards.merged_metadata(metadata) if shard else metadata
        self._write_metadata(storage_id, merged, shard)
        return (self._storage.files(storage_id) if self._dist.rank == 0 else {}), merged

    def _write_metadata(self, storage_id: str, metadata: Json, shard: bool) -> int:
        data = _metadata_file(metadata)
        with self._shards.told_to_all("write the metadata") if shard else nullcontext():
            if self._dist.rank == 0:
                self._storage.write(storage_id, METADATA_FILE, data)
        return len(data)

    def _report(self, storage_id: str, files: Mapping[str, int], metadata: Json) -> None:
        if self._dist.rank == 0:
            self._reporter.stored(storage_id, files, metadata)

    @contextlib.contextmanager
    def _forgotten_on_failure(self, storage_id: str) -> Iterator[None]:
        """Nobody would ever know of what was stored of it."""
        try:
            yield
        except BaseException:
            if self._dist.rank == 0:
                try:
                    self._storage.delete(storage_id)
                except (WindlassError, OSError) as problem:
                    log.warning("parts of checkpoint %s are left behind: %s", storage_id, problem)
            raise

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
            self._fetch(storage_id, target, selected(self._storage.files(storage_id), selector))
            return
        with self._chief_told_to_machine() as chief:
            files = self._storage.files(storage_id) if chief else {}
        names: list[str] = self._dist.broadcast_local(list(files))
        wanted = {name for name in names if selector is None or selector(name)}
        everybody = self._dist.gather_local(wanted)
        with self._chief_told_to_machine():
            if everybody is not None:
                union = set().union(*everybody)
                self._fetch(
                    storage_id, target, {n: size for n, size in files.items() if n in union}
                )

    def _fetch(self, storage_id: str, target: Path, files: Mapping[str, int]) -> None:
        lines = progress_lines(log.info, f"downloading checkpoint {storage_id}")
        self._storage.download(storage_id, target, files.keys(), progress=lines)

    @contextlib.contextmanager
    def _chief_told_to_machine(self) -> Iterator[bool]:
        """The block of the first rank of a machine; the others raise if it does. Yields whether this is that rank."""
        chief = self._dist.local_rank == 0
        problem = None
        try:
            yield chief
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
            raise
        finally:
            said = self._dist.broadcast_local(problem)
        if said is not None and not chief:
            raise RuntimeError(f"the first rank of this machine could not download: {said}")

    @contextlib.contextmanager
    def restore_path(
        self,
        storage_id: str,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> Iterator[Path]:
        """Yields a directory with the checkpoint.

        If the storage is a directory it is the stored one itself: read only; `selector` has no effect. Otherwise it is
        a temporary copy.
        """
        mode = DownloadMode(download_mode)
        shared = mode is DownloadMode.LocalWorkersShareDownload
        direct = self._storage.local_path(storage_id)
        if direct is not None and not direct.is_dir():
            raise CheckpointNotFound(storage_id)
        own = uuid.uuid4().hex
        path = direct or _temporary(self._dist.broadcast_local(own) if shared else own)
        try:
            if direct is None:
                self.download(storage_id, path, mode, selector=selector)
            yield path
        finally:
            if shared:
                self._dist.gather_local(None)
            if direct is None and (not shared or self._dist.local_rank == 0):
                shutil.rmtree(path, ignore_errors=True)

    def get_metadata(self, storage_id: str) -> Json:
        return self._reporter.metadata(storage_id)

    def delete(self, storage_id: str) -> None:
        """Remove a checkpoint from storage, then tell the master."""
        self._storage.delete(storage_id)
        self._reporter.deleted(storage_id)


def _checked(metadata: dict[str, Any] | None, *, required: bool) -> Json:
    """Metadata as JSON. Wrong metadata is refused before anything is written."""
    plain: Json = to_wire(metadata or {})
    if required and "steps_completed" not in plain:
        raise ValueError("checkpoint metadata needs 'steps_completed', the steps that it contains")
    return plain


def _metadata_file(metadata: Json) -> bytes:
    return json.dumps(metadata, indent=2).encode()


def _temporary(name: str) -> Path:
    """A directory that the ranks of one machine share."""
    path = Path(tempfile.gettempdir()) / f"windlass-checkpoint-{name}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path
