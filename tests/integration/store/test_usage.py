"""Accounting of allocations, on both databases."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from master.core.visibility import EVERYTHING, Visibility
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.usage import allocations
from master.usage.allocations import Interval, UsedAllocation, used_allocations

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def add(store: Store, id_: str, start: datetime | None, end: datetime | None) -> None:
    task: dict[str, object] = {"id": f"t{id_}", "type": "COMMAND", "job_id": "j", "owner_id": 7}
    uow = UnitOfWork()
    uow.insert(tables.Task, {**task, "created_at": NOON, "ended_at": end})
    row: dict[str, object] = {"id": id_, "task_id": f"t{id_}", "run_id": 1, "state": "X"}
    row |= {"pool": "home", "granted_pool": "away", "slots": 2, "document": {}}
    row |= {"requested_at": NOON, "started_at": start, "ended_at": end, "is_open": end is None}
    uow.insert(tables.Allocation, row)
    await store.commit(uow)


async def found(store: Store, first: datetime, last: datetime) -> list[UsedAllocation]:
    pages = used_allocations(store, Interval(first, last), EVERYTHING)
    return [row async for page in pages for row in page]


async def test_what_overlaps_the_interval_is_found_over_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocations, "PAGE", 2)
    for id_, start, end in (
        ("before", NOON - 2 * HOUR, NOON),
        ("into", NOON - HOUR, NOON + HOUR),
        ("same-b", NOON, NOON + HOUR),
        ("same-a", NOON, NOON + HOUR),
        ("around", NOON - 9 * HOUR, NOON + 9 * HOUR),
        ("runs", NOON + HOUR, None),
        ("after", NOON + 2 * HOUR, NOON + 3 * HOUR),
        ("waits", None, None),
    ):
        await add(store, id_, start, end)
    rows = await found(store, NOON, NOON + 2 * HOUR)
    assert [row.id for row in rows] == ["around", "into", "same-a", "same-b", "runs"]
    assert rows[0]._replace(id="", started_at=NOON, ended_at=None) == UsedAllocation(
        "", 2, NOON, None, None, "away", "COMMAND", 7, "", None, None, None, None, 1
    )
    nothing = Visibility(workspaces=frozenset())
    hidden = used_allocations(store, Interval(NOON, NOON + HOUR), nothing)
    assert [page async for page in hidden] == []


def test_an_interval_clips() -> None:
    interval = Interval(NOON, NOON + HOUR)
    assert interval.seconds(NOON - HOUR, NOON + HOUR / 2) == 1800
    assert interval.seconds(NOON - HOUR, NOON) == 0
    assert interval.seconds(NOON + 2 * HOUR, NOON + 3 * HOUR) == 0
    assert date(2026, 3, 1) == NOON.date()
