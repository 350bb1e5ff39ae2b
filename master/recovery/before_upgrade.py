"""A backup before this release changes the tables of an earlier one, for the way back."""

from __future__ import annotations

import asyncio
import shutil
from datetime import datetime
from pathlib import Path

import structlog

from master.recovery.backup import make_backup
from master.recovery.places import Places
from windlass import __version__
from windlass.base.errors import InvalidState, WindlassError

log = structlog.get_logger(__name__)

PREFIX = "before-upgrade-"
KEPT = 3
"""The newest ones: a start that fails after its backup is tried again, and makes another."""


async def back_up_before_upgrade(places: Places, into: Path, now: datetime) -> Path:
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
