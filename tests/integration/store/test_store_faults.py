"""Full disks, broken connections and kills: nothing acknowledged is lost, nothing half done stays."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from master.store.sql.faults import OutcomeUnknown
from master.store.sql.postgres import PostgresDatabase
from master.store.store import Store
from master.store.tables import Meta
from master.store.unit_of_work import UnitOfWork
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.errors import StoreUnavailable

CHILD = Path(__file__).with_name("committing_child.py")


def meta(key: str, value: Any = None) -> UnitOfWork:
    unit = UnitOfWork()
    unit.insert(Meta, {"key": key, "value": value})
    return unit


async def keys(store: Store) -> set[str]:
    return set(await store.read(select(Meta.key)))


async def limit_pages(store: Store, spare: int) -> None:
    """SQLite then finds its disk full after `spare` more pages."""

    def limit(connection: Any) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + spare}")

    await store._database.write(limit)


async def test_a_full_disk_refuses_what_does_not_fit_and_nothing_else(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with leading_store(f"sqlite:///{tmp_path}/windlass.db", clock) as store:
        await store.commit(meta("before"))
        await limit_pages(store, spare=4)
        results = await asyncio.gather(
            store.commit(meta("small")),
            store.commit(meta("big", "x" * 1_000_000)),
            store.commit(meta("small too")),
            return_exceptions=True,
        )
        assert isinstance(results[1], StoreUnavailable)
        assert "full" in results[1].message
        assert (results[0], results[2]) == (None, None)
        assert await keys(store) == {"before", "small", "small too"}
        await limit_pages(store, spare=10_000)
        await store.commit(meta("big", "x" * 1_000_000))
        assert "big" in await keys(store)


async def test_a_locked_database_says_so_and_works_later(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    monkeypatch.setattr("master.store.sql.sqlite.BUSY_TIMEOUT_S", 0.01)
    path = tmp_path / "windlass.db"
    async with leading_store(f"sqlite:///{path}", clock) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.commit(meta("a"))
        other.execute("ROLLBACK")
        other.close()
        await store.commit(meta("b"))
        assert await keys(store) == {"b"}


async def end_other_connections(store: Store) -> None:
    """As a restart of the server would."""

    def end(connection: Any) -> None:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        )

    await store._database.read(end)


async def test_a_lost_connection_is_made_again(postgres_url: str, clock: ManualClock) -> None:
    async with leading_store(postgres_url, clock) as store:
        await store.commit(meta("a"))
        await end_other_connections(store)
        await store.commit(meta("b"))
        assert await keys(store) == {"a", "b"}


@pytest.mark.parametrize("happened", [True, False])
async def test_a_commit_that_was_never_answered_is_looked_up(
    postgres_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, happened: bool
) -> None:
    real = AsyncConnection.commit
    broken = list[bool]()

    async def commit(self: AsyncConnection) -> None:
        if broken:
            return await real(self)
        broken.append(True)
        await (real(self) if happened else self.rollback())
        raise DBAPIError("COMMIT", None, ConnectionError("gone"), connection_invalidated=True)

    async with leading_store(postgres_url, clock) as store:
        monkeypatch.setattr(AsyncConnection, "commit", commit)
        await store.commit(meta("a"))
        assert await keys(store) == {"a"}
        count = await store.read_one(select(func.count()).select_from(Meta))
        assert count == 1


async def test_an_unknown_outcome_ends_the_writer(
    postgres_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commit(_: AsyncConnection) -> None:
        raise DBAPIError("COMMIT", None, ConnectionError("gone"), connection_invalidated=True)

    async def nobody_knows(_: PostgresDatabase, __: int) -> bool:
        raise OutcomeUnknown("nobody knows")

    store = await Store.open(postgres_url, clock=clock)
    await store.take_lease("master")
    run = asyncio.create_task(store.run())
    with monkeypatch.context() as patch:
        patch.setattr(AsyncConnection, "commit", commit)
        patch.setattr(PostgresDatabase, "_committed", nobody_knows)
        with pytest.raises(OutcomeUnknown):
            await store.commit(meta("a"))
    with pytest.raises(OutcomeUnknown):
        await run
    with pytest.raises(StoreUnavailable):
        await store.commit(meta("b"))
    await store.close()


@pytest.mark.parametrize("acknowledgements", [1, 60, 400])
async def test_no_acknowledged_commit_is_lost_by_a_kill(
    db_url: str, clock: ManualClock, acknowledgements: int
) -> None:
    """A child commits pairs of rows from many tasks and says which; it is killed while it does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), db_url, stdout=asyncio.subprocess.PIPE, cwd=Path.cwd()
    )
    assert process.stdout is not None
    lines = [await process.stdout.readline() for _ in range(acknowledgements)]
    process.send_signal(signal.SIGKILL)
    rest, _ = await process.communicate()
    whole, _, _ = (b"".join(lines) + rest).rpartition(b"\n")
    acknowledged = {json.loads(line) for line in whole.splitlines()}
    assert len(acknowledged) >= acknowledgements
    async with leading_store(db_url, clock) as store:
        found = await keys(store)
        lefts = {key.removeprefix("left ") for key in found if key.startswith("left ")}
        rights = {key.removeprefix("right ") for key in found if key.startswith("right ")}
        assert lefts == rights, "a unit was committed in part"
        assert acknowledged <= lefts
        await store.commit(meta("and on"))
