"""What a run spent its time on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.store import tables
from master.store.store import Store
from master.usage.allocations import Interval, UsedAllocation
from master.usage.phases import Phase, Span, spans_of, spent
from tests.fakes.stored_rows import experiment, trial, with_project

START = datetime(2026, 3, 1, tzinfo=UTC)
WHOLE = Interval(START - timedelta(days=1), START + timedelta(days=2))
HOURS = st.integers(-5, 60).map(lambda hours: START + timedelta(hours=hours))
PHASES = st.sampled_from([Phase.VALIDATION, Phase.CHECKPOINT])
SPANS = st.lists(st.builds(Span, PHASES, HOURS, HOURS), max_size=12)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def run(until: datetime | None = None, pulled: datetime | None = None) -> UsedAllocation:
    return UsedAllocation(
        "a", 1, START, until, pulled, "pool", "TRIAL", 1, "u", 1, ("l",), "w", 1, 1
    )


def test_a_checkpoint_before_the_validation_of_its_batch_is_counted_once() -> None:
    spans = [Span(Phase.VALIDATION, at(10), at(16)), Span(Phase.CHECKPOINT, at(10), at(12))]
    rows = spent(run(at(30), pulled=at(5)), spans, WHOLE, at(60))
    assert {row.phase: row.seconds / 60 for row in rows} == {
        Phase.PULLING: 5,
        Phase.CHECKPOINT: 2,
        Phase.VALIDATION: 4,
        Phase.TRAINING: 30 - 11,
    }
    assert rows[-1].end == at(16)


@given(st.none() | HOURS, st.none() | HOURS, SPANS, HOURS, HOURS)
def test_phases_add_up_to_the_run_whatever_clocks_say(
    until: datetime | None, pulled: datetime | None, spans: list[Span], one: datetime, two: datetime
) -> None:
    interval, now = Interval(min(one, two), max(one, two)), START + timedelta(hours=40)
    used = run(until, pulled)
    rows = spent(used, spans, interval, now)
    assert all(row.seconds >= 0 for row in rows)
    assert len({row.phase for row in rows}) == len(rows)
    whole = interval.seconds(used.started_at, used.until(now))
    assert sum(row.seconds for row in rows) == pytest.approx(whole)


async def test_reports_of_the_same_batch_and_run_make_spans(store: Store) -> None:
    unit = with_project()
    unit.insert(tables.Experiment, experiment(1))
    unit.insert(tables.Trial, trial(1), trial(2))
    for id_, (trial_id, run_id, group, steps, minute) in enumerate(
        [
            (1, 1, "training", 4, 1),
            (1, 1, "training", 4, 2),
            (1, 1, "validation", 4, 5),
            (1, 1, "validation", 5, 6),
            (1, 2, "training", 5, 7),
            (2, 1, "training", 5, 3),
        ]
    ):
        report = {"id": id_, "trial_id": trial_id, "run_id": run_id, "group": group, "steps": steps}
        unit.insert(
            tables.Metric, {**report, "metrics": {}, "archived": False, "reported_at": at(minute)}
        )
    for uuid, steps, minute in (("a", 4, 9), ("b", 5, 10), ("c", 6, 11)):
        ids = {"uuid": uuid, "task_id": "t1", "trial_id": 1, "experiment_id": 1, "run_id": 1}
        row = {**ids, "state": "COMPLETED", "steps": steps, "resources": {}, "meta": {}}
        unit.insert(tables.Checkpoint, {**row, "reported_at": at(minute)})
    await store.commit(unit)
    assert await spans_of(store, [run()], WHOLE) == {
        (1, 1): [
            Span(Phase.VALIDATION, at(2), at(5)),
            Span(Phase.CHECKPOINT, at(5), at(9)),
            Span(Phase.CHECKPOINT, at(6), at(10)),
        ]
    }
    late = Interval(at(9), at(60))
    assert list(await spans_of(store, [run()], late)) == [(1, 1)]
    assert await spans_of(store, [run()._replace(trial_id=2)], WHOLE) == {}
