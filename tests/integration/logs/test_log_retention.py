"""Deleting task logs whose time is over, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from master.logs.retention import SETTLED, TASKS_AT_ONCE, LogRetention
from master.logs.rows import LogQuery, TaskLine
from master.logs.store import LogStore
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.stores import running
from windlass.base.clock import ManualClock

DAY = timedelta(days=1)


@pytest.fixture
async def logs(db_url: str) -> AsyncIterator[LogStore]:
    async with running(await LogStore.open(db_url)) as opened:
        yield opened


async def add(
    store: Store, logs: LogStore, id_: str, ended_at: datetime | None, days: int | None = None
) -> None:
    """A task with two lines."""
    start = datetime.fromisoformat("2025-01-01T00:00:00+00:00")
    uow = UnitOfWork()
    row: dict[str, object] = {"id": id_, "type": "COMMAND", "job_id": "j", "owner_id": 1}
    times: dict[str, object] = {"created_at": start, "ended_at": ended_at}
    uow.insert(tables.Task, {**row, **times, "log_retention_days": days})
    await store.commit(uow)
    await logs.append([TaskLine(task_id=id_, timestamp=start, log=text) for text in "ab"])


async def kept(logs: LogStore, *ids: str) -> list[str]:
    return [id_ for id_ in ids if await logs.query(LogQuery(task_ids=(id_,)))]


async def test_what_is_over_goes_by_the_newest_setting(
    store: Store, logs: LogStore, clock: ManualClock
) -> None:
    now = clock.now()
    for id_, ended_at, days in (
        ("old", now - 4 * DAY, None),
        ("new", now - 2 * DAY, None),
        ("shorter", now - 2 * DAY, 1),
        ("longer", now - 4 * DAY, 9),
        ("for-ever", now - 400 * DAY, -1),
        ("at-once", now, 0),
        ("runs", None, 0),
    ):
        await add(store, logs, id_, ended_at, days)
    everything = ("old", "new", "shorter", "longer", "for-ever", "at-once", "runs")
    assert await LogRetention(store, logs, clock, days=-1).clean() == 4
    assert await kept(logs, *everything) == ["old", "new", "longer", "for-ever", "runs"]
    retention = LogRetention(store, logs, clock, days=3)
    assert await retention.clean() == 2
    assert await retention.clean() == 0
    assert await kept(logs, *everything) == ["new", "longer", "for-ever", "runs"]
    clock.advance((8 * DAY).total_seconds())
    assert await retention.clean() == 4
    assert await kept(logs, *everything) == ["for-ever", "runs"]


async def test_last_lines_of_a_task_that_has_just_ended_go_at_the_next_cleaning(
    store: Store, logs: LogStore, clock: ManualClock
) -> None:
    await add(store, logs, "t", clock.now())
    retention = LogRetention(store, logs, clock, days=0)
    assert await retention.clean() == 2
    await logs.append([TaskLine(task_id="t", timestamp=clock.now(), log="late")])
    clock.advance(SETTLED.total_seconds())
    assert await retention.clean() == 1
    assert await store.read(select(tables.Task.logs_removed_at)) == [clock.now()]


class Failing:
    """Dies after some tasks."""

    def __init__(self, logs: LogStore, tasks: int) -> None:
        self._logs = logs
        self._left = tasks

    async def delete(self, task_ids: Sequence[str]) -> int:
        deleted = 0
        for id_ in task_ids:
            if self._left == 0:
                raise OSError("the power is gone")
            self._left -= 1
            deleted += await self._logs.delete([id_])
        return deleted


async def test_a_cleaning_that_was_cut_off_is_done_by_the_next(
    store: Store, logs: LogStore, clock: ManualClock
) -> None:
    ids = [f"t{number:03}" for number in range(TASKS_AT_ONCE + 5)]
    for id_ in ids:
        await add(store, logs, id_, clock.now() - DAY)
    with pytest.raises(OSError, match="power"):
        await LogRetention(store, Failing(logs, TASKS_AT_ONCE + 2), clock, days=0).clean()
    assert await kept(logs, *ids) == ids[TASKS_AT_ONCE + 2 :]
    assert await LogRetention(store, logs, clock, days=0).clean() == 6
    assert await kept(logs, *ids) == []
