"""Copying a checkpoint to this machine: from its storage, or through the master. Both go on where they were cut off."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from windlass.base.checkpoint_states import DOWNLOADABLE, DownloadFrom, not_downloadable
from windlass.base.errors import InvalidState, NotFound, WindlassError
from windlass.sdk.client import Client
from windlass.sdk.session import OnProgress
from windlass.sdk.wire import Json
from windlass.storage import local_files, open_storage
from windlass.storage.base import folder_parts

METADATA = "metadata.json"
"""Training code finds a whole checkpoint by it: it is written last."""
_COPIED_AT_ONCE = 1024 * 1024


def download_checkpoint(
    client: Client,
    checkpoint: Json,
    target: Path,
    *,
    mode: DownloadFrom = DownloadFrom.AUTO,
    trusted_hosts: Collection[str] = (),
    report: OnProgress = lambda done, total: None,
) -> None:
    """Files that are there with the right size are kept. Raises InvalidState if not all of it has arrived.

    `trusted_hosts`: storage to which this machine's cloud credentials may be sent, besides the provider's own and the
    cluster's.
    """
    uuid, state = str(checkpoint["uuid"]), str(checkpoint["state"])
    if state not in DOWNLOADABLE:
        experiment = (checkpoint.get("training") or {}).get("experimentId")
        raise InvalidState(not_downloadable(uuid, state.removeprefix("STATE_"), experiment))
    sizes = {name: int(size) for name, size in (checkpoint.get("resources") or {}).items()}
    if not (target / METADATA).exists() or _wrong(target, sizes):
        _fetch(client, checkpoint, target, sizes, mode, trusted_hosts, report)
    if wrong := _wrong(target, sizes):
        found = _size(target, wrong[0])
        problem = "is missing" if found is None else f"has {found} bytes, not {sizes[wrong[0]]}"
        more = f" (and {len(wrong) - 1} more files)" if len(wrong) > 1 else ""
        raise InvalidState(
            f"Checkpoint {uuid} is not whole in {target}: {wrong[0]} {problem}{more}. "
            "Run this again to fetch what is missing"
        )
    if not (target / METADATA).exists():
        target.mkdir(parents=True, exist_ok=True)
        (target / METADATA).write_text(json.dumps(checkpoint.get("metadata") or {}, indent=2))


def _fetch(
    client: Client,
    checkpoint: Json,
    target: Path,
    sizes: Mapping[str, int],
    mode: DownloadFrom,
    trusted_hosts: Collection[str],
    report: OnProgress,
) -> None:
    uuid = str(checkpoint["uuid"])
    if mode is DownloadFrom.MASTER:
        _through_master(client, uuid, target, sizes, report)
        return
    try:
        _directly(checkpoint, target, trusted_hosts, report)
    except (WindlassError, OSError) as direct:
        if mode is DownloadFrom.DIRECT:
            raise
        try:
            _through_master(client, uuid, target, sizes, report)
        except WindlassError as error:
            raise InvalidState(
                f"Checkpoint {uuid} cannot be downloaded. Directly: {direct}. Through the master: {error}"
            ) from error


def _directly(
    checkpoint: Json, target: Path, trusted_hosts: Collection[str], report: OnProgress
) -> None:
    """Raises NotFound or StorageError where this machine does not see the files."""
    uuid = str(checkpoint["uuid"])
    config: dict[str, Any] = (checkpoint.get("training") or {}).get("experimentConfig") or {}
    storage = open_storage(
        config.get("checkpoint_storage") or {},
        # What the operator chose for the cluster is trusted by who uses it; what the checkpoint's author chose is not.
        trusted_hosts=None if checkpoint.get("clusterStorage") is True else trusted_hosts,
    )
    try:
        files = storage.files(uuid)
    except NotFound:
        raise InvalidState(
            f"Checkpoint {uuid} is not in {storage.where} as this machine sees it"
        ) from None
    names = set(files)
    if names - {METADATA}:
        storage.download(uuid, target, names - {METADATA}, progress=report)
    if METADATA in names:
        storage.download(uuid, target, [METADATA])


def _through_master(
    client: Client, uuid: str, target: Path, sizes: Mapping[str, int], report: OnProgress
) -> None:
    total = sum(sizes.values())
    with client.session.download(f"/checkpoints/{uuid}", accept="application/x-tar") as pieces:
        source = _Counted(pieces, lambda done: report(min(done, total), total))
        try:
            with tarfile.open(
                fileobj=cast("IO[bytes]", source), mode="r|", bufsize=_COPIED_AT_ONCE
            ) as archive:
                _unpack(archive, target, sizes)
        except tarfile.ReadError as error:
            raise InvalidState(
                f"The master's archive of checkpoint {uuid} ended early ({error}): run this again to go on"
            ) from None


def _unpack(archive: tarfile.TarFile, target: Path, sizes: Mapping[str, int]) -> None:
    """Below `target`, whatever names the archive has. Only files and directories."""
    target.mkdir(parents=True, exist_ok=True)
    with local_files.opened(target) as top:
        for member in archive:
            folder_parts(member.name)
            if member.isdir():
                local_files.make_directory(top, member.name)
                continue
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or _size(target, member.name) == member.size == sizes.get(
                member.name
            ):
                continue
            with (
                local_files.replacing(top, member.name) as file,
                os.fdopen(os.dup(file), "wb") as writer,
            ):
                while piece := content.read(_COPIED_AT_ONCE):
                    writer.write(piece)


class _Counted:
    """What `tarfile` reads from: pieces as they come."""

    def __init__(self, pieces: Iterator[bytes], report: Callable[[int], None]) -> None:
        self._pieces = pieces
        self._report = report
        self._rest = b""
        self._done = 0

    def read(self, size: int) -> bytes:
        parts, have = [self._rest], len(self._rest)
        while have < size and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            have += len(piece)
        data = b"".join(parts)
        self._rest = data[size:]
        self._done += min(len(data), size)
        self._report(self._done)
        return data[:size]


def _wrong(target: Path, sizes: Mapping[str, int]) -> list[str]:
    """Files that are not there with the size that the master knows of."""
    return [
        name
        for name, size in sorted(sizes.items())
        if not name.endswith("/") and _size(target, name) != size
    ]


def _size(target: Path, name: str) -> int | None:
    path = target / name
    try:
        return path.lstat().st_size if not path.is_symlink() else None
    except OSError:
        return None
