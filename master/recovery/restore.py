"""From a backup to a data folder, and to an empty PostgreSQL database. All of it, or the folder is empty again."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from master.data_folder import LOCK
from master.logs.tables import LOGS
from master.recovery import postgres_copy
from master.recovery.backup import BLOBS, LOGS_FILE, STATE_FILE
from master.recovery.identity import (
    FILE,
    FolderState,
    Identity,
    read_identity,
    write_identity,
)
from master.recovery.manifest import (
    Manifest,
    copy_private,
    problems_of,
    read_manifest,
    sync_folders,
)
from master.recovery.places import DataPlaces
from master.store.migrate import STATE, known_revisions
from windlass.base.errors import Conflict, InvalidState

RESTORED_EPOCHS = 1_000_000
"""Added to the epoch of the lease: agents obey no master with a lower one than they have seen, and the cluster may
have had more masters after the backup was made."""


async def restore_backup(backup: Path, places: DataPlaces) -> Manifest:
    """The folder is held by the caller. Raises InvalidArgument, InvalidState for what is no whole backup of a release
    up to this one, Conflict for a folder or a database that is not empty."""
    manifest = read_manifest(backup)
    _check_release(backup, manifest)
    _check_kind(places, manifest)
    if problems := await asyncio.to_thread(lambda: list(problems_of(backup, manifest))):
        raise InvalidState(f"{backup} is damaged, use another backup: {'; '.join(problems[:5])}")
    _check_empty(places)
    identity = Identity(cluster_id=manifest.cluster_id, state=FolderState.RESTORING)
    write_identity(places.folder, identity)
    try:
        await asyncio.to_thread(_copy_files, backup, places, manifest)
        if places.files is None:
            await postgres_copy.copy_in(
                places.url,
                backup,
                manifest.tables,
                revisions=(manifest.state_revision, manifest.logs_revision),
                epochs=RESTORED_EPOCHS,
            )
    except BaseException:
        _clear(places)
        raise
    write_identity(places.folder, identity.model_copy(update={"state": FolderState.WHOLE}))
    return manifest


def _check_release(backup: Path, manifest: Manifest) -> None:
    for line, revision in ((STATE, manifest.state_revision), (LOGS, manifest.logs_revision)):
        if revision not in known_revisions(line):
            raise InvalidState(
                f"{backup} was made by Windlass {manifest.windlass}, whose tables (revision {revision}) this release "
                "does not know: restore it with that release"
            )


def _check_kind(places: DataPlaces, manifest: Manifest) -> None:
    if manifest.database != places.kind:
        way_out = {
            "sqlite": "give a master.yaml without `db`",
            "postgresql": "give the master.yaml (--config-file) that names an empty PostgreSQL database in `db`",
        }
        raise Conflict(
            f"the backup is of a {manifest.database} database, not of {places.kind}: {way_out[manifest.database]}"
        )


def _check_empty(places: DataPlaces) -> None:
    """A restore that was cut leaves a folder that says so: what it left is removed."""
    cut = read_identity(places.folder)
    if cut is not None and cut.state is FolderState.RESTORING:
        _clear(places)
    there = sorted(p.name for p in places.folder.iterdir() if p.name != LOCK)
    if there:
        raise Conflict(
            f"{places.folder} is not empty, it has {', '.join(there[:5])}: restore into a new folder"
        )
    for path in (places.files.state, places.files.logs) if places.files is not None else ():
        if path.exists():
            raise Conflict(f"{path} exists: a restore overwrites nothing, move it away")


def _clear(places: DataPlaces) -> None:
    """Everything but the lock, which this process holds; who we are goes last."""
    for path in places.folder.iterdir():
        if path.name in (LOCK, FILE):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if places.files is not None:
        places.files.state.unlink(missing_ok=True)
        places.files.logs.unlink(missing_ok=True)
    (places.folder / FILE).unlink(missing_ok=True)


def _copy_files(backup: Path, places: DataPlaces, manifest: Manifest) -> None:
    targets: dict[str, Path] = {}
    if places.files is not None:
        targets = {STATE_FILE: places.files.state, LOGS_FILE: places.files.logs}
    for name in manifest.files:
        if Path(name).parts[0] == postgres_copy.FOLDER:
            continue
        target = targets.get(name, places.folder / name)
        copied = copy_private(backup / name, target)
        if copied != manifest.files[name]:
            raise InvalidState(f"{backup / name} changed while it was copied")
    if places.files is not None:
        _raise_epoch(places.files.state)
    (places.folder / BLOBS).mkdir(exist_ok=True, mode=0o700)
    sync_folders(places.folder)


def _raise_epoch(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE leader SET epoch = epoch + ?, master_id = ''", (RESTORED_EPOCHS,))
        database.commit()
