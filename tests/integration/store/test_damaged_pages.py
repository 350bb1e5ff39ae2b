"""Damage inside of the files: found by looking, told at once, and never written over."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select
from typer.testing import CliRunner

from master.cli import app
from master.recovery.background_check import BackgroundCheck
from master.store.blobs import BlobStore, blob_path
from master.store.tables import Meta, Port
from master.store.unit_of_work import UnitOfWork
from tests.integration.store.test_damaged_folders import make_cluster, options, started
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.errors import DataDamaged, StoreDamaged

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with some rows. Not to be changed."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    asyncio.run(make_cluster(options(folder)))
    blobs = BlobStore(folder / "blobs", inline=True)
    blob = asyncio.run(blobs.put(b"context"))
    with closing(sqlite3.connect(folder / "windlass.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executemany(
            "INSERT INTO port VALUES (?, ?)", [(n, f"allocation {n}") for n in range(5000)]
        )
        database.execute(
            "INSERT INTO command (id, type, job_id, owner_id, workspace_id, state, description, config, context, "
            "resource_pool, exit_status, created_at, ended_at) VALUES "
            "('c', 'COMMAND', 'j', 1, 1, 'TERMINATED', '', '{}', ?, '', '', '2026-03-01 12:00:00', "
            "'2026-03-01 12:00:00')",
            (blob,),
        )
        database.commit()
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


def pages_of(file: Path, table: str) -> list[int]:
    """Of the B-tree of a table, in order. Its root is the first."""
    with closing(sqlite3.connect(file)) as database:
        root = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()[0]
    content = file.read_bytes()
    page = content[(root - 1) * PAGE : root * PAGE]
    if page[0] == 13:  # a leaf: the whole table is one page
        return [root]
    cells = int.from_bytes(page[3:5], "big")
    children = [
        int.from_bytes(page[at : at + 4], "big")
        for at in (int.from_bytes(page[12 + 2 * n : 14 + 2 * n], "big") for n in range(cells))
    ]
    return [root, *children]


def overwrite(file: Path, page: int) -> None:
    """One page, as a failing disk or another program might."""
    with file.open("r+b") as opened:
        opened.seek((page - 1) * PAGE)
        opened.write(b"\xa5" * PAGE)
        os.fsync(opened.fileno())


def harm_rows(folder: Path) -> None:
    file = folder / "windlass.db"
    overwrite(file, pages_of(file, "port")[3])


async def test_a_start_finds_a_damaged_page_in_the_background(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm_rows(folder)
    found = BackgroundCheck(folder, [folder / "windlass.db", folder / "logs.db"])
    await found.run()
    assert list(found.damaged) == [folder / "windlass.db"]
    assert "restore a backup (windlass master restore" in capsys.readouterr().out


async def test_a_running_master_says_that_its_database_is_damaged(folder: Path) -> None:
    harm_rows(folder)
    async with started(options(folder)) as master:
        await master.checked()
        assert master.services.database_is_damaged()
        assert not master.services.store.is_damaged, "it still writes"


async def test_a_check_that_is_cut_ends_at_once(folder: Path) -> None:
    check = asyncio.create_task(BackgroundCheck(folder, [folder / "windlass.db"]).run())
    await asyncio.sleep(0)
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check


def ports(first: int) -> UnitOfWork:
    unit = UnitOfWork()
    for n in range(first, first + 3):
        unit.insert(Port, {"port": n, "allocation_id": "new"})
    return unit


async def test_nothing_more_is_written_once_a_damaged_page_was_met(
    folder: Path, clock: ManualClock
) -> None:
    harm_rows(folder)
    async with leading_store(f"sqlite:///{folder}/windlass.db", clock) as store:
        keys = await store.read(select(Meta.key))
        harmed = UnitOfWork()
        harmed.execute(delete(Port))  # meets every page
        with pytest.raises(StoreDamaged, match=r"is damaged .*restore the last backup"):
            await store.commit(harmed)
        assert store.is_damaged
        with pytest.raises(StoreDamaged, match="nothing is written any more"):
            await store.commit(ports(6000))
        assert await store.read(select(Meta.key)) == keys, "what can be read still is"


async def test_all_that_waits_is_refused_with_it(folder: Path, clock: ManualClock) -> None:
    harm_rows(folder)
    async with leading_store(f"sqlite:///{folder}/windlass.db", clock) as store:
        harmed = UnitOfWork()
        harmed.execute(delete(Port))  # meets every page
        units = [harmed, *(ports(6000 + 10 * n) for n in range(5))]
        results = await asyncio.gather(*map(store.commit, units), return_exceptions=True)
        assert all(isinstance(r, StoreDamaged) for r in results), results


async def test_a_damaged_blob_is_one_clear_error_and_heals_by_storing_it_again(
    tmp_path: Path,
) -> None:
    blobs = BlobStore(tmp_path)
    blob = await blobs.put(b"content")
    path = blob_path(tmp_path, blob)
    harms: list[Callable[[], Any]] = [
        path.unlink,
        lambda: path.write_bytes(b"cont"),
        lambda: path.write_bytes(b"Content"),
    ]
    for harm in harms:
        harm()
        with pytest.raises(DataDamaged, match="take it from a backup"):
            await blobs.get(blob)
        assert await blobs.put(b"content") == blob
        assert await blobs.get(blob) == b"content"


def checked(folder: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", "--data-dir", str(folder), *words])
    return done.exit_code, done.output


def test_a_whole_folder_is_ok(folder: Path) -> None:
    code, output = checked(folder, "--db")
    assert code == 0, output
    assert [line.rpartition(": ")[2] for line in output.splitlines()] == ["ok"] * 5


def harm_reference(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "windlass.db")) as database:
        database.execute("UPDATE command SET owner_id = 99")
        database.commit()


def harm_logs(folder: Path) -> None:
    overwrite(folder / "logs.db", pages_of(folder / "logs.db", "log_entry")[0])


def harm_blob(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "windlass.db")) as database:
        [(blob,)] = database.execute("SELECT context FROM command").fetchall()
    blob_path(folder / "blobs", blob).write_bytes(b"other")


HARMS = {
    "a page": (harm_rows, "windlass.db: pages: DAMAGED"),
    "a page of the logs": (harm_logs, "logs.db: pages: DAMAGED"),
    "a reference": (harm_reference, "row 1 of command refers to a row of user that is missing"),
    "a blob": (harm_blob, "is damaged: its content has another hash"),
    "the database": (lambda f: (f / "windlass.db").unlink(), "windlass.db is missing, but"),
}


@pytest.mark.parametrize("what", HARMS)
def test_a_full_check_tells_what_is_damaged(folder: Path, what: str) -> None:
    harm, text = HARMS[what]
    harm(folder)
    code, output = checked(folder, "--db")
    assert code == 1
    assert text in output


async def test_postgresql_is_read_in_full(tmp_path: Path, postgres_url: str) -> None:
    own = options(tmp_path / "own", url=postgres_url)
    await make_cluster(own)
    config = tmp_path / "master.yaml"
    config.write_text(f"db: {{url: '{postgres_url}'}}\n")
    code, output = await asyncio.to_thread(
        checked, tmp_path / "own", "--db", "--config-file", str(config)
    )
    assert (code, output.count(": ok")) == (0, 3), output
