"""The rows of an experiment are deleted some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from sqlalchemy import func, select

from master.checkpoints import experiment_rows
from master.checkpoints.experiment_rows import ExperimentRows
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.fakes.stored_rows import NOW, experiment, trial, with_project

COUNTED = (tables.Metric, tables.Checkpoint, tables.SearcherEvent)


class NoLogs:
    async def delete(self, task_ids: Sequence[str], /) -> int:
        return 0


async def fill(store: Store) -> None:
    unit = with_project()
    unit.insert(tables.Experiment, experiment(1), experiment(2))
    unit.insert(tables.Trial, trial(1), trial(2))
    for seq in range(1, 8):
        times = {"reported_at": NOW}
        of = {"trial_id": 1 + seq % 2, "run_id": 1, "group": "training", "steps": seq}
        unit.insert(tables.Metric, {"id": seq, **of, "metrics": {}, "archived": False, **times})
        stored = {"uuid": f"c{seq}", "task_id": "t", "state": "COMPLETED", "experiment_id": 1}
        rest = {"steps": seq, "resources": {}, "meta": {}, "size": 0}
        trial_id = None if seq == 7 else 1
        unit.insert(tables.Checkpoint, {**stored, **rest, "trial_id": trial_id, **times})
        for id_ in (1, 2):
            event = {"experiment_id": id_, "seq": seq, "event": {}, "actions": [], "at": NOW}
            unit.insert(tables.SearcherEvent, event)
    await store.commit(unit)


async def test_each_commit_deletes_few_rows_and_the_rest_of_a_search_can_be_replayed(
    memory_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(memory_store)
    monkeypatch.setattr(experiment_rows, "ROWS_AT_ONCE", 2)
    really, counts = memory_store.commit, [await count(memory_store)]

    async def commit(unit: UnitOfWork) -> None:
        await really(unit)
        counts.append(await count(memory_store))
        event = tables.SearcherEvent
        left = await memory_store.read(select(event.seq).where(event.experiment_id == 1))
        assert left == list(range(1, len(left) + 1))

    monkeypatch.setattr(memory_store, "commit", commit)
    await ExperimentRows(memory_store, NoLogs()).remove(1)
    assert counts[-1] == [0, 0, 7]
    for before, after in pairwise(counts):
        assert sum(before) - sum(after) <= 2
    experiments = await memory_store.read(select(tables.Experiment.id))
    assert experiments == [2]
    assert not await memory_store.read(select(tables.Trial.id))


async def count(store: Store) -> list[int]:
    return [
        (await store.read_one(select(func.count()).select_from(table))) or 0 for table in COUNTED
    ]
