"""A backup of a master that may be running: a folder that is there whole or not at all.

The databases come first, each as of one moment. Every file that the state names (a model definition, a command's
context) was durable before the state named it and is never changed, so copying those afterwards gives a whole.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from master.data_folder import SECRET, TLS
from master.logs.tables import LOGS
from master.recovery import postgres_copy
from master.recovery.identity import LastBackup, note_backup
from master.recovery.manifest import (
    BackupFile,
    Manifest,
    TableEntry,
    copy_private,
    entry_of,
    sync_folder,
    sync_folders,
    write_manifest,
)
from master.recovery.places import DataPlaces, SqliteFiles
from master.recovery.sqlite_files import copy_live
from master.recovery.state_facts import StateFacts, facts_of_file, revision_of_file
from master.store.blobs import blob_path
from master.store.migrate import head_revision
from windlass import __version__
from windlass.base.errors import Conflict, InvalidArgument

STATE_FILE = "windlass.db"
LOGS_FILE = "logs.db"
BLOBS = "blobs"


async def make_backup(places: DataPlaces, target: Path, now: datetime) -> Manifest:
    """Make the folder `target`, in one that exists.

    Raises Conflict or InvalidArgument if it cannot be made, InvalidState if what is there cannot be backed up, OSError.
    """
    target, partial = await asyncio.to_thread(_begin, target)
    try:
        manifest = await _fill(places, partial, now)
        await asyncio.to_thread(_finish, partial, target, manifest)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    made_at = now.isoformat(timespec="seconds")
    note_backup(places.folder, LastBackup(path=str(target), made_at=made_at))
    return manifest


def _begin(target: Path) -> tuple[Path, Path]:
    """The absolute target, and a new folder beside it (0700) that will become it."""
    target = target.absolute()
    if target.exists() or target.is_symlink():
        raise Conflict(f"{target} exists: a backup overwrites nothing, give a new name")
    if not target.parent.is_dir():
        raise InvalidArgument(f"there is no folder {target.parent}: make it, or mount its disk")
    return target, Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))


async def _fill(places: DataPlaces, partial: Path, now: datetime) -> Manifest:
    tables: tuple[TableEntry, ...] = ()
    if places.files is not None:
        facts, logs_revision = await asyncio.to_thread(_copy_databases, places.files, partial)
    else:
        facts, tables = await postgres_copy.copy_out(places.url, partial)
        logs_revision = head_revision(LOGS)
    entries, missing = await asyncio.to_thread(_copy_rest, places.folder, partial, facts.blobs)
    return Manifest(
        windlass=__version__,
        made_at=now,
        cluster_id=facts.cluster_id,
        database=places.kind,
        state_revision=facts.revision,
        logs_revision=logs_revision,
        files=entries,
        tables=tables,
        missing_blobs=missing,
    )


def _copy_databases(files: SqliteFiles, partial: Path) -> tuple[StateFacts, str]:
    copy_live(files.state, partial / STATE_FILE)
    copy_live(files.logs, partial / LOGS_FILE)
    return facts_of_file(partial / STATE_FILE), revision_of_file(partial / LOGS_FILE, LOGS)


def _copy_rest(
    folder: Path, partial: Path, blobs: Iterable[str]
) -> tuple[dict[str, BackupFile], tuple[str, ...]]:
    """Secret, TLS authority and blobs. A blob that is not whole does not keep the rest from being saved."""
    entries = {str(p.relative_to(partial)): entry_of(p) for p in partial.rglob("*") if p.is_file()}
    entries[SECRET] = copy_private(folder / SECRET, partial / SECRET)
    for name in sorted(path.name for path in (folder / TLS).glob("*.pem")):
        entries[f"{TLS}/{name}"] = copy_private(folder / TLS / name, partial / TLS / name)
    missing: list[str] = []
    for blob_id in sorted(blobs):
        copy = blob_path(partial / BLOBS, blob_id)
        try:
            entry = copy_private(blob_path(folder / BLOBS, blob_id), copy)
        except FileNotFoundError:
            missing.append(blob_id)
            continue
        if entry.sha256 == blob_id:
            entries[str(copy.relative_to(partial))] = entry
        else:
            copy.unlink()
            missing.append(blob_id)
    return entries, tuple(missing)


def _finish(partial: Path, target: Path, manifest: Manifest) -> None:
    write_manifest(partial, manifest)
    sync_folders(partial)
    partial.rename(target)
    sync_folder(target.parent)
