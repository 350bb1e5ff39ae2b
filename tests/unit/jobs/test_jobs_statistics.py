"""How long work waited, by pool and day; on both databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from jobs_queue_world import FAIR_SHARE, NOW, PRIORITY, MemoryCluster, entry, facts

from master.jobs.statistics import DAYS, DailyWait, WaitQueries
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.errors import NotFound

NOON = NOW + timedelta(hours=12)
"""The first of January 2026."""


async def test_a_wait_is_counted_where_it_ended(store: Store) -> None:
    await add_allocations(store, ("gpu", NOON, 10.0), ("gpu", NOON, 20.0))
    uow = UnitOfWork()
    uow.update(tables.Allocation, {"id": "t.1"}, {"granted_pool": "big"}, expect=1)
    await store.commit(uow)
    waits = await WaitQueries(store).daily_waits(NOON)
    assert {pool: round(of[0].seconds) for pool, of in waits.items()} == {"gpu": 10, "big": 20}


async def add_allocations(store: Store, *runs: tuple[str, datetime, float | None]) -> None:
    """(pool, requested, seconds waited so far or until it started)"""
    uow = UnitOfWork()
    task = {"id": "t", "type": "TRIAL", "job_id": "j", "owner_id": 1, "created_at": NOW}
    uow.insert(tables.Task, task)
    for number, (pool, requested, waited) in enumerate(runs):
        started = None if waited is None else requested + timedelta(seconds=waited)
        uow.insert(
            tables.Allocation,
            {
                "id": f"t.{number}",
                "task_id": "t",
                "run_id": number,
                "state": "RUNNING",
                "pool": pool,
                "slots": 1,
                "document": {},
                "requested_at": requested,
                "started_at": started,
            },
        )
    await store.commit(uow)


async def test_waits_are_averaged_by_the_day_on_which_they_ended(store: Store) -> None:
    yesterday = NOON - timedelta(days=1)
    await add_allocations(
        store,
        ("gpu", NOON, 10.0),
        ("gpu", NOON, 20.5),
        ("gpu", NOON, None),
        ("cpu", NOON, 1.0),
        ("gpu", yesterday, 3600.0),
        ("gpu", yesterday + timedelta(hours=11), 7200.0),
    )
    waits = await WaitQueries(store).daily_waits(NOON)
    assert set(waits) == {"gpu", "cpu"}
    assert [wait.day for wait in waits["gpu"]] == [date(2025, 12, 31), date(2026, 1, 1)]
    assert waits["gpu"][0].seconds == pytest.approx(3600)
    assert waits["gpu"][1].seconds == pytest.approx((10.0 + 20.5 + 7200) / 3, abs=1e-3)
    assert [wait.seconds for wait in waits["cpu"]] == [pytest.approx(1.0, abs=1e-3)]


async def test_days_begin_at_midnight_utc_and_old_ones_are_left_out(store: Store) -> None:
    first = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=DAYS)
    second = timedelta(seconds=1)
    await add_allocations(store, ("gpu", first - 2 * second, 1.0), ("gpu", first - second, 1.0))
    waits = await WaitQueries(store).daily_waits(NOON)
    assert waits == {"gpu": [DailyWait(first.date(), pytest.approx(1.0, abs=1e-3))]}


async def test_jobs_are_counted_by_pool(memory_store: Store) -> None:
    cluster = MemoryCluster({"gpu": PRIORITY, "shared": FAIR_SHARE})
    cluster.add(facts("a"), facts("b"), facts("c"))
    job = {name: root.facts for name, root in cluster.jobs.items()}
    cluster.entries = [
        entry(job["a"]),
        entry(job["b"]),
        entry(job["b"], 2, state="scheduled"),
        entry(job["c"], state="scheduled_backfilled"),
    ]
    await add_allocations(memory_store, ("gpu", NOW - timedelta(seconds=60), 5.0))
    service = cluster.service(memory_store)
    gpu, shared = await service.statistics()
    assert (gpu.pool, gpu.queued, gpu.scheduled) == ("gpu", 1, 2)
    assert [wait.day for wait in gpu.daily_waits] == [date(2025, 12, 31)]
    assert (shared.queued, shared.scheduled, shared.daily_waits) == (0, 0, ())
    assert [one.pool for one in await service.statistics(["shared"])] == ["shared"]
    with pytest.raises(NotFound, match="nowhere"):
        await service.statistics(["gpu", "nowhere"])
