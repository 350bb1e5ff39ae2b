"""A master started on each kind of damaged data folder: refused in words, with nothing changed."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from master.app import Master, MasterOptions
from master.config import load
from master.recovery.decision import LosablePart
from master.store.tables import User
from windlass.base.errors import InvalidState, StoreUnavailable


def options(folder: Path, *, url: str = "", replace: tuple[LosablePart, ...] = ()) -> MasterOptions:
    return MasterOptions(
        config=load(None, overrides={"db": {"url": url}} if url else {}),
        data_dir=folder,
        master_url="http://127.0.0.1:1",
        replace_lost=frozenset(replace),
    )


@asynccontextmanager
async def started(given: MasterOptions) -> AsyncIterator[Master]:
    """Once it is ready."""
    master = await Master.open(given)
    running = asyncio.create_task(master.run())
    ready = asyncio.create_task(master.ready())
    try:
        await asyncio.wait({ready, running}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield master
    finally:
        for task in (ready, running):
            task.cancel()
        await asyncio.gather(ready, running, return_exceptions=True)


async def make_cluster(given: MasterOptions) -> str:
    """Its id. It has two users, and a model definition."""
    async with started(given) as master:
        await master.services.blobs.put(b"model")
        return str(master.services.info.cluster_id)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder. Not to be changed."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    asyncio.run(make_cluster(options(folder)))
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of another cluster."""
    folder = tmp_path_factory.mktemp("other") / "data"
    asyncio.run(make_cluster(options(folder)))
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of a whole one, to be harmed."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def missing(file: Path, _: Path) -> None:
    file.unlink()


def empty(file: Path, _: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path, _: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def only_a_header(file: Path, _: Path) -> None:
    """As a copy of the file of a running master may be: all of it is still in the write-ahead log."""
    file.unlink()
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE t (a)")
        database.execute("DROP TABLE t")


def no_database(file: Path, _: Path) -> None:
    file.write_text("something else\n" * 1000)


def another_application(file: Path, _: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE songs (a)")


def another_cluster(file: Path, other: Path) -> None:
    shutil.copy(other / file.name, file)


def first_page(file: Path, _: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(100)
        opened.write(b"\xa5" * 3996)


def newer(file: Path, _: Path) -> None:
    table = "alembic_version_logs" if file.name == "logs.db" else "alembic_version"
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"UPDATE {table} SET version_num = '9999'")  # noqa: S608
        database.commit()


Harm = Callable[[Path, Path], None]
CASES: dict[tuple[str, Harm], str] = {
    ("windlass.db", missing): "windlass.db is missing, but .* has cluster.json, a secret",
    ("windlass.db", empty): "windlass.db is empty, but",
    ("windlass.db", only_a_header): "windlass.db is empty, but",
    ("windlass.db", cut): r"windlass.db is damaged: it was cut, \d+ of \d+ bytes are there",
    ("windlass.db", no_database): "windlass.db is damaged: it is not an SQLite file",
    (
        "windlass.db",
        another_application,
    ): "is not the database of a master: it has the tables songs",
    ("windlass.db", another_cluster): "belongs to cluster .*, but .*windlass.db to cluster",
    ("windlass.db", first_page): "windlass.db is damaged: ",
    ("windlass.db", newer): "windlass.db was used by a newer Windlass .revision 9999",
    ("logs.db", missing): "logs.db is missing: .*--replace-lost logs",
    ("logs.db", empty): "logs.db is empty: .*--replace-lost logs",
    ("logs.db", only_a_header): "logs.db is empty: .*--replace-lost logs",
    ("logs.db", cut): "logs.db is damaged .it was cut.*--replace-lost logs",
    ("logs.db", no_database): "logs.db is damaged .it is not an SQLite file.*--replace-lost logs",
    ("logs.db", another_application): "logs.db is foreign .it has the tables songs.*--replace-lost",
    ("logs.db", another_cluster): "logs.db is of cluster .*--replace-lost logs",
    ("logs.db", first_page): "logs.db is damaged .*--replace-lost logs",
    ("logs.db", newer): "logs.db was used by a newer Windlass",
    ("secret", missing): "secret is missing: .*--replace-lost secret",
    ("secret", empty): "secret is damaged: .*--replace-lost secret",
    ("secret", cut): "secret is damaged: .*--replace-lost secret",
    ("secret", no_database): "secret is damaged: .*--replace-lost secret",
    ("secret", another_cluster): "secret is not that of cluster .*--replace-lost secret",
    ("cluster.json", cut): "cluster.json is damaged: remove it",
    ("cluster.json", empty): "cluster.json is damaged: remove it",
    ("cluster.json", another_cluster): "belongs to cluster",
}


def content(folder: Path) -> dict[str, bytes]:
    """But for what a reader of SQLite leaves beside a database."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.name.endswith(("-shm", "-wal"))
    }


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]} {c[1].__name__}")
async def test_a_damaged_folder_is_refused_and_left_as_it_is(
    folder: Path, other: Path, case: tuple[str, Harm]
) -> None:
    name, harm = case
    harm(folder / name, other)
    before = content(folder)
    with pytest.raises(InvalidState, match=CASES[case]):
        async with started(options(folder)):
            pass
    assert content(folder) == before


async def test_a_whole_folder_goes_on(folder: Path) -> None:
    async with started(options(folder)) as master:
        users = await master.services.store.read_one(select(func.count()).select_from(User))
        assert users == 2
        assert await master.services.blobs.get(blob_of(folder)) == b"model"


def blob_of(folder: Path) -> str:
    [path] = [p for p in (folder / "blobs").rglob("*") if p.is_file()]
    return path.parent.name + path.name


async def test_a_folder_without_cluster_json_is_one_of_the_release_before(folder: Path) -> None:
    before = (folder / "cluster.json").read_bytes()
    (folder / "cluster.json").unlink()
    async with started(options(folder)):
        assert (folder / "cluster.json").read_bytes() == before


REPLACED: dict[str, tuple[LosablePart, tuple[Harm, ...]]] = {
    "secret": (LosablePart.SECRET, (missing, empty, cut, another_cluster)),
    "logs.db": (LosablePart.LOGS, (missing, empty, cut, no_database, another_cluster, first_page)),
}


@pytest.mark.parametrize(
    ("name", "harm"), [(name, harm) for name, (_, harms) in REPLACED.items() for harm in harms]
)
async def test_what_is_lost_is_replaced_where_an_operator_says_so(
    folder: Path, other: Path, name: str, harm: Harm
) -> None:
    harm(folder / name, other)
    there = (folder / name).read_bytes() if (folder / name).exists() else None
    async with started(options(folder, replace=(REPLACED[name][0],))):
        pass
    kept = folder / f"{name}.old-1"
    assert (kept.read_bytes() if kept.exists() else None) == there
    async with started(options(folder)):
        pass  # from now on it is whole again


async def test_a_folder_is_never_a_new_cluster_beside_a_secret(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "secret").write_text("ab" * 32)
    with pytest.raises(InvalidState, match="has a secret of a cluster"):
        async with started(options(folder)):
            pass
    assert [p.name for p in folder.iterdir()] == ["secret"]


async def test_with_postgresql(
    tmp_path: Path, postgres_url: str, second_postgres_url: str, folder: Path
) -> None:
    """The other database, an empty one, and another cluster's folder."""
    own = options(tmp_path / "own", url=postgres_url)
    await make_cluster(own)
    async with started(own):
        pass
    with pytest.raises(InvalidState, match=r"the PostgreSQL database .* is empty, but .*own has"):
        await Master.open(options(tmp_path / "own", url=second_postgres_url))
    with pytest.raises(InvalidState, match=r"windlass.db is missing, but .*own has"):
        await Master.open(options(tmp_path / "own"))
    with pytest.raises(InvalidState, match=r"belongs to cluster .*, but the PostgreSQL database"):
        await Master.open(options(folder, url=postgres_url))
    with pytest.raises(InvalidState, match="secret is missing"):
        await Master.open(options(tmp_path / "new", url=postgres_url))


async def test_a_postgresql_server_that_is_away_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await Master.open(options(tmp_path / "d", url="postgresql://x@127.0.0.1:1/x"))
    with pytest.raises(StoreUnavailable):
        await Master.open(options(tmp_path / "d", url="postgresql://x@127.0.0.1:1/x"))


STEPS = ("identity", "secret", "state", "logs", "id")


@pytest.mark.parametrize("step", STEPS)
async def test_a_first_start_that_is_killed_anywhere_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = tmp_path / "data"
    targets = {
        "identity": "master.recovery.opening.load_or_create",
        "secret": "master.app.Store.open",
        "state": "master.app.LogStore.open",
        "logs": "master.app.AuthService.ensure_users",
        "id": "master.recovery.opening.OpenedFolder.settle",
    }

    def die(*_: Any, **__: Any) -> Any:
        raise KeyError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(targets[step], die)
        with pytest.raises((KeyError, ExceptionGroup)):
            async with started(options(folder)):
                pass
    async with started(options(folder)) as master:
        assert {u.username for u in master.services.auth.users()} == {"admin", "determined"}
