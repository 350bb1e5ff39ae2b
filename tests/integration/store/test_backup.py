"""A backup of a running master is of one moment and whole, and what is restored from it is that."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from master.data_folder import held
from master.logs.rows import LogQuery, TaskLine
from master.logs.store import LogStore
from master.recovery.backup import make_backup
from master.recovery.identity import (
    CLUSTER_ID,
    FolderState,
    Identity,
    read_identity,
    way_back,
    write_identity,
)
from master.recovery.manifest import Manifest
from master.recovery.places import DataPlaces, places_of
from master.recovery.restore import RESTORED_EPOCHS, restore_backup
from master.store.blobs import BlobStore, blob_path
from master.store.store import Store
from master.store.tables import Command, Leader, Meta, Port, User, Workspace
from master.store.unit_of_work import UnitOfWork
from tests.stores import leading_store, running
from windlass.base.clock import ManualClock
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, WindlassError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COMMITTERS = 20
BEFORE, AFTER = 300, 300
"""Commits before the backup begins, and after it has ended."""


class Live:
    """A data folder whose state and logs are written to."""

    def __init__(self, places: DataPlaces, store: Store, logs: LogStore) -> None:
        self.places = places
        self.store = store
        self.logs = logs
        self.blobs = BlobStore(places.folder / "blobs")
        self.commits = 0
        self._committed = asyncio.Event()

    async def command(self, content: bytes) -> str:
        """Store a command with a context as the master does: the blob first."""
        blob = await self.blobs.put(content)
        unit = UnitOfWork()
        unit.insert(
            Command,
            {
                "id": blob[:8],
                "type": "COMMAND",
                "job_id": "j",
                "owner_id": 1,
                "state": "RUNNING",
                "config": {},
                "context": blob,
                "created_at": NOON,
            },
        )
        await self.store.commit(unit)
        return blob

    async def keep_committing(self) -> None:
        async def committer(n: int) -> None:
            for i in count():
                unit = UnitOfWork()
                unit.insert(Meta, {"key": f"pair {n}-{i}", "value": "x" * 200})
                unit.insert(Port, {"port": n + i * COMMITTERS, "allocation_id": f"pair {n}-{i}"})
                await self.store.commit(unit)
                self.commits += 1
                self._committed.set()

        async with asyncio.TaskGroup() as group:
            for n in range(COMMITTERS):
                group.create_task(committer(n))

    async def reach(self, commits: int) -> None:
        while self.commits < commits:
            self._committed.clear()
            await self._committed.wait()


def new_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True, mode=0o700)
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text("ab" * 32 + "\n")


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@asynccontextmanager
async def live_folder(folder: Path, url: str, clock: ManualClock) -> AsyncIterator[Live]:
    new_folder(folder)
    async with (
        leading_store(url, clock) as store,
        running(await LogStore.open(url)) as logs,
    ):
        unit = UnitOfWork()
        unit.insert(Meta, {"key": CLUSTER_ID, "value": "c-1"})
        user = {"id": 1, "username": "ann", "created_at": NOON, "modified_at": NOON}
        unit.insert(User, {**user, "agent_user_group": {"name": 'tab\t"quote" \\N \u00e9\n'}})
        owner = {"user_id": 1, "immutable": True, "archived": False, "name": "Uncategorized"}
        unit.insert(Workspace, {"id": 1, **owner})
        await store.commit(unit)
        await logs.append([TaskLine(task_id="1.a", timestamp=NOON, log="hello\tthere \\.")])
        yield Live(places_of(folder, url), store, logs)


@pytest.fixture
async def live(tmp_path: Path, db_url: str, clock: ManualClock) -> AsyncIterator[Live]:
    url = db_url.replace(f"{tmp_path}/windlass.db", f"{tmp_path}/data/windlass.db")
    async with live_folder(tmp_path / "data", url, clock) as live:
        yield live


@pytest.fixture
async def small(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Live]:
    url = f"sqlite:///{tmp_path}/data/windlass.db"
    async with live_folder(tmp_path / "data", url, clock) as live:
        yield live


@pytest.fixture
def restored_url(live: Live, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """An empty database of the same kind."""
    if live.places.files is not None:
        return f"sqlite:///{tmp_path}/new/windlass.db"
    url: str = request.getfixturevalue("second_postgres_url")
    return url


async def restore(backup: Path, folder: Path, url: str = "") -> DataPlaces:
    places = places_of(folder, url or f"sqlite:///{folder}/windlass.db")
    with held(folder):
        await restore_backup(backup, places)
    return places


async def test_a_backup_of_a_busy_master_is_of_one_moment(
    live: Live, restored_url: str, tmp_path: Path, clock: ManualClock
) -> None:
    """Units write to two tables; a backup has both rows of a unit or none."""
    blob = await live.command(b"files")
    busy = asyncio.create_task(live.keep_committing())
    await live.reach(BEFORE)
    done = await make_backup(live.places, tmp_path / "backup", NOON)
    await live.reach(live.commits + AFTER)
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    assert done.missing_blobs == ()
    places = await restore(tmp_path / "backup", tmp_path / "new", restored_url)
    async with leading_store(restored_url, clock) as store:
        found = await store.read(select(Meta.key).where(Meta.key.like("pair%")))  # type: ignore[attr-defined]
        ports = await store.read(select(Port.allocation_id))
        assert sorted(found) == sorted(ports), "half a unit"
        assert BEFORE <= len(found) < live.commits
        [user] = await store.read(select(User))
        assert user.agent_user_group == {"name": 'tab\t"quote" \\N \u00e9\n'}
    async with running(await LogStore.open(restored_url)) as logs:
        assert [r.log for r in await logs.query(LogQuery(task_ids=("1.a",)))] == [
            "hello\tthere \\."
        ]
    assert await BlobStore(places.folder / "blobs").get(blob) == b"files"
    assert (places.folder / "secret").read_text() == "ab" * 32 + "\n"
    assert read_identity(places.folder) == Identity(cluster_id="c-1")


async def test_agents_obey_the_restored_master(
    live: Live, restored_url: str, tmp_path: Path, clock: ManualClock
) -> None:
    """They have seen the epochs of masters that came after the backup."""
    await make_backup(live.places, tmp_path / "backup", NOON)
    await restore(tmp_path / "backup", tmp_path / "new", restored_url)
    store = await Store.open(restored_url, clock=clock)
    [leader] = await store.read(select(Leader))
    assert (leader.epoch, leader.master_id) == (1 + RESTORED_EPOCHS, "")
    await store.close()


async def test_everything_in_a_backup_is_for_its_owner_only(live: Live, tmp_path: Path) -> None:
    await live.command(b"files")
    await make_backup(live.places, tmp_path / "backup", NOON)
    for path in (tmp_path / "backup", *(tmp_path / "backup").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


async def test_the_masters_own_authority_is_in_it_so_that_others_trust_the_restored_one(
    small: Live, tmp_path: Path
) -> None:
    tls = small.places.folder / "tls"
    tls.mkdir(mode=0o755)
    for name in ("authority.pem", "master.pem"):
        (tls / name).write_text(f"key of {name}")
        (tls / name).chmod(0o644)
    await make_backup(small.places, tmp_path / "backup", NOON)
    places = await restore(tmp_path / "backup", tmp_path / "new")
    for folder in (tmp_path / "backup", places.folder):
        assert names(folder / "tls") == ["authority.pem", "master.pem"]
        assert (folder / "tls" / "authority.pem").read_text() == "key of authority.pem"
        assert (folder / "tls").stat().st_mode & 0o777 == 0o700
        for path in (folder / "tls").iterdir():
            assert path.stat().st_mode & 0o777 == 0o600


async def test_a_backup_overwrites_nothing(small: Live, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    with pytest.raises(Conflict, match="exists: a backup overwrites nothing"):
        await make_backup(small.places, tmp_path / "backup", NOON)
    assert names(tmp_path / "backup") == []


async def test_the_folder_of_backups_must_be_there(small: Live, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match=f"there is no folder {tmp_path / 'nowhere'}: make it"
    ):
        await make_backup(small.places, tmp_path / "nowhere" / "backup", NOON)


async def test_a_backup_that_fails_leaves_nothing(small: Live, tmp_path: Path) -> None:
    (small.places.folder / "secret").unlink()
    with pytest.raises(FileNotFoundError):
        await make_backup(small.places, tmp_path / "backup", NOON)
    assert names(tmp_path) == ["data"]


async def test_a_damaged_database_is_no_backup(small: Live, tmp_path: Path) -> None:
    busy = asyncio.create_task(small.keep_committing())
    await small.reach(BEFORE)
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    assert small.places.files is not None
    with closing(sqlite3.connect(small.places.files.state)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    overwrite(small.places.files.state, page=5)
    with pytest.raises(InvalidState, match="is damaged, nothing was backed up"):
        await make_backup(small.places, tmp_path / "backup", NOON)
    assert not (tmp_path / "backup").exists()


def overwrite(path: Path, *, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(b"\xa5" * 4096)


@pytest.mark.parametrize("harm", ["gone", "changed"])
async def test_a_damaged_blob_is_told_and_the_rest_saved(
    small: Live, tmp_path: Path, harm: str
) -> None:
    whole, harmed = await small.command(b"whole"), await small.command(b"harmed")
    path = blob_path(small.places.folder / "blobs", harmed)
    path.unlink() if harm == "gone" else path.write_bytes(b"Harmed")
    done = await make_backup(small.places, tmp_path / "backup", NOON)
    assert done.missing_blobs == (harmed,)
    await restore(tmp_path / "backup", tmp_path / "new")
    assert await BlobStore(tmp_path / "new" / "blobs").get(whole) == b"whole"


async def test_the_last_backup_is_noted_for_messages(small: Live, tmp_path: Path) -> None:
    assert "none is noted" in way_back(small.places.folder)
    await make_backup(small.places, tmp_path / "backup", NOON)
    assert way_back(small.places.folder) == (
        f"restore the backup of 2026-03-01T12:00:00+00:00 "
        f"(windlass master restore {tmp_path}/backup --data-dir NEW_FOLDER)"
    )


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(backup: Path) -> None:
        manifest = json.loads((backup / "manifest.json").read_text())
        change(manifest)
        (backup / "manifest.json").write_text(json.dumps(manifest))

    return edit


BAD: dict[str, tuple[Callable[[Path], object], type[WindlassError], str]] = {
    "no manifest": (lambda b: (b / "manifest.json").unlink(), InvalidArgument, "is not a backup"),
    "a cut manifest": (
        lambda b: (b / "manifest.json").write_bytes((b / "manifest.json").read_bytes()[:99]),
        InvalidState,
        "manifest.json is damaged",
    ),
    "of a newer format": (edited(lambda m: m.update(format=9)), InvalidState, "which is newer"),
    "with newer tables": (
        edited(lambda m: m.update(state_revision="9999")),
        InvalidState,
        "revision 9999.* does not know: restore it with that release",
    ),
    "a file outside": (
        edited(lambda m: m["files"].update({"../x": {"sha256": "", "size": 0}})),
        InvalidState,
        "is damaged",
    ),
    "a missing file": (lambda b: (b / "secret").unlink(), InvalidState, "secret is missing"),
    "a cut file": (
        lambda b: (b / "windlass.db").write_bytes((b / "windlass.db").read_bytes()[:4096]),
        InvalidState,
        "has 4096 bytes instead of",
    ),
    "a changed file": (lambda b: overwrite(b / "logs.db", page=1), InvalidState, "was changed"),
    "another kind of database": (
        edited(lambda m: m.update(database="postgresql")),
        Conflict,
        "is of a postgresql database, not of sqlite",
    ),
}


@pytest.mark.parametrize("what", BAD)
async def test_what_is_no_whole_backup_is_refused_and_changes_nothing(
    small: Live, tmp_path: Path, what: str
) -> None:
    harm, error, text = BAD[what]
    await make_backup(small.places, tmp_path / "backup", NOON)
    harm(tmp_path / "backup")
    with pytest.raises(error, match=text):
        await restore(tmp_path / "backup", tmp_path / "new")
    assert names(tmp_path / "new") == ["lock"]


async def test_a_restore_overwrites_nothing(small: Live, tmp_path: Path) -> None:
    await make_backup(small.places, tmp_path / "backup", NOON)
    before = {p: p.read_bytes() for p in small.places.folder.rglob("*") if p.is_file()}
    with pytest.raises(Conflict, match="is not empty"):
        await restore(tmp_path / "backup", small.places.folder)
    before.pop(small.places.folder / "lock", None)
    assert all(path.read_bytes() == content for path, content in before.items())


async def test_a_restore_that_was_cut_is_done_again(small: Live, tmp_path: Path) -> None:
    await make_backup(small.places, tmp_path / "backup", NOON)
    new = tmp_path / "new"
    new.mkdir(mode=0o700)
    write_identity(new, Identity(cluster_id="c-1", state=FolderState.RESTORING))
    shutil.copy(tmp_path / "backup" / "secret", new / "secret")
    await restore(tmp_path / "backup", new)
    assert read_identity(new) == Identity(cluster_id="c-1")


async def test_a_restore_that_fails_leaves_the_folder_empty(
    small: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_backup(small.places, tmp_path / "backup", NOON)

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("master.recovery.restore._raise_epoch", full)
    with pytest.raises(OSError, match="no space"):
        await restore(tmp_path / "backup", tmp_path / "new")
    assert names(tmp_path / "new") == ["lock"]


async def test_a_postgresql_database_that_is_not_empty_is_left_alone(
    tmp_path: Path, postgres_url: str, clock: ManualClock
) -> None:
    async with live_folder(tmp_path / "data", postgres_url, clock) as live:
        manifest: Manifest = await make_backup(live.places, tmp_path / "backup", NOON)
        assert {t.name for t in manifest.tables} >= {"user", "experiment", "log_entry"}
        with pytest.raises(Conflict, match="the PostgreSQL database is not empty"):
            await restore(tmp_path / "backup", tmp_path / "new", postgres_url)
        assert names(tmp_path / "new") == ["lock"]
        assert len(await live.store.read(select(User))) == 1
