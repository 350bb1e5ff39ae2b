"""What the store promises, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select
from sqlalchemy.exc import DBAPIError

from master.store.store import Store
from master.store.tables import Experiment, Meta, Metric, Port, User, UserSession
from master.store.unit_of_work import UnitOfWork
from tests.stores import leading_store, running
from windlass.base.clock import ManualClock
from windlass.base.errors import Conflict, InvalidArgument, LeaseLost, WindlassError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def meta(key: str, value: Any = None) -> UnitOfWork:
    unit = UnitOfWork()
    unit.insert(Meta, {"key": key, "value": value})
    return unit


async def keys(store: Store) -> set[str]:
    return {row.key for row in await store.read(select(Meta))}


def user_row(user_id: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": user_id,
        "username": f"user{user_id}",
        "created_at": NOON,
        "modified_at": NOON,
    } | changes


async def test_a_unit_is_committed_whole_or_not_at_all(store: Store) -> None:
    unit = meta("a")
    unit.insert(Meta, {"key": "b"}, {"key": "c"})
    await store.commit(unit)
    assert await keys(store) == {"a", "b", "c"}
    broken = meta("d")
    broken.extend(meta("a"))
    with pytest.raises(Conflict):
        await store.commit(broken)
    assert await keys(store) == {"a", "b", "c"}


async def test_one_bad_unit_among_many_fails_alone(store: Store) -> None:
    await store.commit(meta("taken"))
    bad = {17, 42}
    units = [meta("taken") if n in bad else meta(f"key {n}") for n in range(60)]
    results = await asyncio.gather(*map(store.commit, units), return_exceptions=True)
    assert {n for n, result in enumerate(results) if isinstance(result, Conflict)} == bad
    assert {n for n, result in enumerate(results) if result is None} == set(range(60)) - bad
    assert await keys(store) == {"taken", *(f"key {n}" for n in range(60) if n not in bad)}


@pytest.mark.parametrize(("expect", "conflicts"), [(None, False), (2, False), (1, True), (3, True)])
async def test_an_update_that_matches_other_rows_than_expected_fails_its_unit(
    store: Store, expect: int | None, conflicts: bool
) -> None:
    unit = UnitOfWork()
    unit.insert(Port, *({"port": n, "allocation_id": "a"} for n in (1, 2)))
    await store.commit(unit)
    change = meta("changed")
    change.update(Port, {"allocation_id": "a"}, {"allocation_id": "b"}, expect=expect)
    if conflicts:
        with pytest.raises(Conflict, match="2 rows match"):
            await store.commit(change)
    else:
        await store.commit(change)
    owners = {row.allocation_id for row in await store.read(select(Port))}
    assert owners == ({"a"} if conflicts else {"b"})
    assert await keys(store) == (set() if conflicts else {"changed"})


async def test_every_operation_does_what_it_says(store: Store) -> None:
    unit = UnitOfWork()
    unit.insert(User, user_row(1), user_row(2), user_row(3))
    unit.upsert(User, user_row(2, display_name="Two"))
    unit.upsert(User, user_row(4))
    unit.update(User, {"last_auth_at": None, "username": "user3"}, {"admin": True}, expect=1)
    unit.delete(User, {"id": 1})
    unit.execute(delete(User).where(User.id > 3))
    unit.upsert(Meta, {"key": "only a key"})
    unit.upsert(Meta, {"key": "only a key"})
    await store.commit(unit)
    rows = await store.read(select(User).order_by(User.id))
    assert [(row.id, row.display_name, row.admin) for row in rows] == [
        (2, "Two", False),
        (3, "", True),
    ]


async def test_a_foreign_key_to_nowhere_is_a_conflict(store: Store) -> None:
    unit = UnitOfWork()
    row = {"id": 1, "user_id": 99, "token_hash": "x", "created_at": NOON, "expires_at": NOON}
    unit.insert(UserSession, row)
    with pytest.raises(Conflict):
        await store.commit(unit)


async def test_times_are_aware_utc_and_naive_ones_are_refused(store: Store) -> None:
    unit = UnitOfWork()
    east = timezone(timedelta(hours=2))
    unit.insert(User, user_row(1, last_auth_at=NOON.astimezone(east)))
    await store.commit(unit)
    row = await store.read_one(select(User))
    assert row is not None
    assert row.last_auth_at == NOON
    assert row.last_auth_at.utcoffset() == timedelta(0)
    naive = UnitOfWork()
    naive.insert(User, user_row(2, created_at=NOON.replace(tzinfo=None)))
    with pytest.raises(WindlassError, match="timezone"):
        await store.commit(naive)


async def test_json_comes_back_as_it_was(store: Store) -> None:
    document = {"loss": math.inf, "deep": [{"x": -math.inf}], "text": "ä\x00\ud800", "$float": "1"}
    await store.commit(meta("k", document))
    await store.commit(meta("none"))
    row = await store.read_one(select(Meta).where(Meta.key == "k"))
    assert row is not None
    assert row.value == document
    nothing = await store.read(select(Meta).where(Meta.value.is_(None)))
    assert [row.key for row in nothing] == ["none"]


async def test_a_value_that_does_not_fit_fails_its_unit_alone(store: Store) -> None:
    big = UnitOfWork()
    big.insert(Port, {"port": 2**80, "allocation_id": "a"})
    results = await asyncio.gather(
        store.commit(big), store.commit(meta("a")), return_exceptions=True
    )
    assert isinstance(results[0], WindlassError)
    assert results[1] is None


async def test_column_defaults_are_filled_in(store: Store) -> None:
    unit = UnitOfWork()
    unit.insert(Experiment, {})
    with pytest.raises((Conflict, InvalidArgument)):
        await store.commit(unit)
    unit = UnitOfWork()
    unit.insert(User, user_row(1))
    await store.commit(unit)
    row = await store.read_one(select(User))
    assert row is not None
    assert (row.active, row.remote, row.password_hash) == (True, False, "")


def metric(store: Store, trial: int, steps: int) -> dict[str, Any]:
    return {
        "id": store.next_id(Metric),
        "trial_id": trial,
        "run_id": 1,
        "group": "training",
        "steps": steps,
        "metrics": {"avg_metrics": {"loss": 1.0 / (1 + steps)}},
        "reported_at": NOON,
    }


async def test_ids_go_on_after_the_largest_stored(db_url: str, clock: ManualClock) -> None:
    async with leading_store(db_url, clock) as store:
        assert [store.next_id(User), store.next_id(User), store.next_id(Metric)] == [1, 2, 1]
        unit = UnitOfWork()
        unit.insert(User, user_row(7))
        await store.commit(unit)
    async with leading_store(db_url, clock) as store:
        assert [store.next_id(User), store.next_id(User), store.next_id(Metric)] == [8, 9, 1]


async def test_the_lease_counts_up_over_restarts(db_url: str, clock: ManualClock) -> None:
    for expected in (1, 2, 3):
        async with running(await Store.open(db_url, clock=clock)) as store:
            assert await store.take_lease(f"master {expected}") == expected == store.epoch


async def test_a_lease_that_was_given_back_commits_nothing(db_url: str, clock: ManualClock) -> None:
    store = await Store.open(db_url, clock=clock)
    assert await store.take_lease("one") == 1
    await store.give_back_lease()
    run = asyncio.create_task(store.run())
    with pytest.raises(LeaseLost, match="nobody leads"):
        await store.commit(meta("a"))
    await asyncio.gather(run, return_exceptions=True)
    await store.close()


async def test_a_lease_is_given_back_only_by_who_holds_it(store: Store, db_url: str) -> None:
    old = await Store.open(db_url, clock=ManualClock())
    await old.give_back_lease()
    await old.close()
    await store.commit(meta("a"))
    assert await keys(store) == {"a"}


async def test_nobody_writes_without_a_lease(db_url: str, clock: ManualClock) -> None:
    async with running(await Store.open(db_url, clock=clock)) as store:
        with pytest.raises(LeaseLost):
            await store.commit(meta("a"))


async def test_a_master_that_was_replaced_changes_nothing_and_ends(
    db_url: str, clock: ManualClock
) -> None:
    old = await Store.open(db_url, clock=clock)
    await old.take_lease("old")
    run = asyncio.create_task(old.run())
    await old.commit(meta("before"))
    async with leading_store(db_url, clock) as new:
        units = [old.commit(meta(f"late {n}")) for n in range(5)]
        results = await asyncio.gather(*units, return_exceptions=True)
        assert all(isinstance(result, LeaseLost) for result in results)
        with pytest.raises(LeaseLost, match="test-master leads with epoch 2"):
            await run
        await new.commit(meta("after"))
        assert await keys(new) == {"before", "after"}
    await old.close()


async def test_ids_count_what_the_old_master_wrote_last(db_url: str, clock: ManualClock) -> None:
    async with leading_store(db_url, clock) as old:
        new = await Store.open(db_url, clock=clock)
        unit = UnitOfWork()
        unit.insert(User, user_row(old.next_id(User)))
        await old.commit(unit)
        async with running(new):
            await new.take_lease("new")
            assert new.next_id(User) == 2


async def test_reading_never_writes(store: Store) -> None:
    with pytest.raises(DBAPIError):
        await store._database.read(lambda connection: connection.execute(delete(Meta)))
    await store.commit(meta("a"))


async def test_errors_do_not_tell_what_was_written(store: Store) -> None:
    unit = UnitOfWork()
    unit.insert(User, user_row(1, password_hash="HASH"), user_row(1, password_hash="HASH"))
    with pytest.raises(Conflict) as refused:
        await store.commit(unit)
    assert "HASH" not in f"{refused.value} {refused.value.__cause__}"


async def test_row_wants_one(store: Store) -> None:
    assert await store.read_one(select(Meta)) is None
    await store.commit(meta("a"))
    await store.commit(meta("b"))
    with pytest.raises(ValueError, match="2 rows"):
        await store.read_one(select(Meta))


async def test_sqlite_files_are_private(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "state" / "windlass.db"
    async with leading_store(f"sqlite:///{path}", clock) as store:
        await store.commit(meta("a"))
        files = list(path.parent.iterdir())
        assert len(files) == 3
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite"])
async def test_other_urls_are_refused_with_the_way_out(url: str, clock: ManualClock) -> None:
    with pytest.raises(InvalidArgument, match="sqlite"):
        await Store.open(url, clock=clock)
