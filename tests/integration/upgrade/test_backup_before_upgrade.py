"""Before a master changes the tables of an earlier release it can make a backup, from which that release goes on."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from master.app import Master, MasterOptions
from master.config import load
from master.recovery.manifest import read_manifest
from master.recovery.opening import KEPT
from tests.integration.upgrade.golden import RELEASES, data_folder
from windlass.base.errors import InvalidState


def options_for(folder: Path, backups: Path) -> MasterOptions:
    return MasterOptions(
        config=load(None),
        data_dir=folder,
        master_url="http://127.0.0.1:1",
        backup_before_upgrade=backups,
    )


async def opened(options: MasterOptions) -> None:
    master = await Master.open(options)
    running = asyncio.create_task(master.run())
    await asyncio.wait(
        {running, asyncio.create_task(master.ready())}, return_when="FIRST_COMPLETED"
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def revision(file: Path) -> str:
    with closing(sqlite3.connect(file)) as database:
        return str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])


@pytest.mark.parametrize("release", RELEASES)
async def test_a_backup_of_the_old_tables_is_made_once(release: str, tmp_path: Path) -> None:
    folder, backups = data_folder(release, tmp_path / "data"), tmp_path / "backups"
    before = revision(folder / "windlass.db")
    await opened(options_for(folder, backups))
    (made,) = backups.iterdir()
    assert revision(made / "windlass.db") == before != revision(folder / "windlass.db")
    assert read_manifest(made).state_revision == before
    assert (made / "secret").read_text() == (folder / "secret").read_text()
    await opened(options_for(folder, backups))
    assert list(backups.iterdir()) == [made], "the second start changes no tables"


async def test_without_room_for_the_backup_nothing_is_changed(tmp_path: Path) -> None:
    folder = data_folder(RELEASES[0], tmp_path / "data")
    before = revision(folder / "windlass.db")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidState, match=r"backup before that cannot be made in .*file: "):
        await Master.open(options_for(folder, tmp_path / "file"))
    assert revision(folder / "windlass.db") == before


async def test_only_the_newest_backups_stay(tmp_path: Path) -> None:
    folder, backups = data_folder(RELEASES[0], tmp_path / "data"), tmp_path / "backups"
    for year in range(2000, 2005):
        (backups / f"before-upgrade-{year}-01-01").mkdir(parents=True)
    (backups / "by hand").mkdir()
    await opened(options_for(folder, backups))
    there = sorted(path.name for path in backups.iterdir())
    assert len(there) == KEPT + 1
    assert there[:2] == ["before-upgrade-2003-01-01", "before-upgrade-2004-01-01"]
