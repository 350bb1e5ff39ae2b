"""Opens a data folder: looks, decides, and prepares what the start of a master needs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog

from master.auth.join_tokens import load_or_create
from master.data_folder import SECRET
from master.recovery.backup import make_backup
from master.recovery.decision import CreateCluster, LosablePart, Refuse, decide
from master.recovery.identity import (
    FolderState,
    Identity,
    secret_mark,
    write_identity,
)
from master.recovery.inspection import look
from master.recovery.places import DataPlaces
from windlass import __version__
from windlass.base.errors import InvalidState, WindlassError

PREFIX = "before-upgrade-"
KEPT = 3
"""The newest ones: a start that fails after its backup is tried again, and makes another."""


async def back_up_before_upgrade(places: DataPlaces, into: Path, now: datetime) -> Path:
    """Raises InvalidState if it cannot be made: nothing was changed."""
    target = into / f"{PREFIX}{now.astimezone().strftime('%Y-%m-%dT%H-%M-%S')}-to-{__version__}"
    try:
        await asyncio.to_thread(_make_room, into)
        await make_backup(places, target, now)
    except (WindlassError, OSError) as error:
        raise InvalidState(
            f"the tables are to be upgraded, and the backup before that cannot be made in {into}: {error}; make it "
            "possible, or start once without --backup-before-upgrade"
        ) from error
    log.info("made a backup before the upgrade of the tables", folder=str(target))
    return target


def _make_room(into: Path) -> None:
    into.mkdir(mode=0o700, exist_ok=True)
    older = sorted(path for path in into.iterdir() if path.name.startswith(PREFIX))
    for path in older[: max(0, len(older) - KEPT + 1)]:
        shutil.rmtree(path)


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedFolder:
    """A folder whose cluster is known. `settle` once its databases say the same."""

    folder: Path
    cluster_id: str
    secret: bytes

    @property
    def secret_mark(self) -> str:
        return secret_mark(self.secret, self.cluster_id)

    def settle(self) -> None:
        write_identity(self.folder, Identity(cluster_id=self.cluster_id))


async def open_folder(
    places: DataPlaces,
    new_cluster_id: Callable[[], str],
    *,
    may_replace: Collection[LosablePart] = (),
    inline: bool = False,
    backups: Path | None = None,
) -> OpenedFolder:
    """`backups`: where one is made if the tables are of an earlier release.

    Raises InvalidState for a folder that is not whole, or not that of its database.
    """
    folder = places.folder
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not places.is_kept:
        return OpenedFolder(folder, new_cluster_id(), load_or_create(folder / SECRET))
    found = await look(places, inline=inline)
    decision = decide(found, may_replace)
    if isinstance(decision, Refuse):
        raise InvalidState(decision.text)
    cluster_id = decision.cluster_id or new_cluster_id()
    if isinstance(decision, CreateCluster):
        write_identity(folder, Identity(cluster_id=cluster_id, state=FolderState.CREATING))
    else:
        for lost in decision.replace:
            _set_aside(places, lost)
        if backups is not None and (found.state.is_older or found.logs.is_older):
            await back_up_before_upgrade(places, backups, datetime.now(UTC))
    return OpenedFolder(folder, cluster_id, load_or_create(folder / SECRET))


def _set_aside(places: DataPlaces, lost: LosablePart) -> None:
    """Keep what is there of it under another name: a new one will be made."""
    log.warning("replaced, as asked for", lost=lost)
    if lost is LosablePart.SECRET:
        files = [places.folder / SECRET]
    elif places.files is not None:
        logs = places.files.logs
        files = [logs, logs.with_name(f"{logs.name}-wal"), logs.with_name(f"{logs.name}-shm")]
    else:
        files = []
    for file in files:
        if file.exists():
            file.replace(_free_name(file))


def _free_name(file: Path) -> Path:
    number = 1
    while (name := file.with_name(f"{file.name}.old-{number}")).exists():
        number += 1
    return name
