"""Series of metrics: what improved, and what down-sampling keeps, on both databases."""

from __future__ import annotations

import math
from datetime import timedelta
from random import Random
from typing import Any

from master.experiments.queries.series import (
    Axis,
    Bound,
    Comparison,
    MetricName,
    SeriesQueries,
    Wanted,
)
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.unit.finding.test_filters_in_sql import START, Draw, prepare


async def filled(store: Store, reports: list[tuple[int, str, int, dict[str, Any]]]) -> None:
    """Of trials 1 and 2: trial, group, steps, metrics."""
    await prepare(store)
    unit, draw = UnitOfWork(), Draw(0)
    unit.insert(tables.Experiment, {**draw.experiment(1), "project_id": 1})
    summary = {"avg_metrics": {"loss": {}}, "own": {"a.b": {}}}
    for id_ in (1, 2):
        unit.insert(tables.Trial, {**draw.trial(id_, 1), "summary_metrics": summary})
    for number, (trial, group, steps, metrics) in enumerate(reports, 1):
        unit.insert(
            tables.Metric,
            {
                "id": number,
                "trial_id": trial,
                "run_id": 1,
                "group": group,
                "steps": steps,
                "metrics": {"avg_metrics": metrics, "batch_metrics": None},
                "archived": False,
                "reported_at": START + timedelta(seconds=number),
            },
        )
    await store.commit(unit)


async def test_what_improved(store: Store) -> None:
    values = [(1, 3.0), (2, 3.0), (2, math.nan), (1, 2.5), (2, 4.0), (1, -1)]
    await filled(
        store, [(t, "validation", n, {"loss": value}) for n, (t, value) in enumerate(values)]
    )
    series = SeriesQueries(store)
    down = await series.improvements(1, "loss", smaller_is_better=True)
    assert [(one.trial_id, one.value) for one in down] == [(1, 3), (1, 2.5), (1, -1)]
    up = await series.improvements(1, "loss", smaller_is_better=False)
    assert [(one.trial_id, one.value) for one in up] == [(1, 3), (2, 4)]
    assert up[1].at == START + timedelta(seconds=5)
    assert await series.improvements(1, "other", smaller_is_better=True) == []


async def test_down_sampling_keeps_ends_and_extremes(store: Store) -> None:
    random = Random(1)
    values = [random.uniform(-1, 1) for _ in range(500)]
    values[123], values[321] = 1000.0, -1000.0
    reports = [(1, "training", n, {"x": v, "epoch": n / 100}) for n, v in enumerate(values)]
    await filled(store, [*reports, (2, "training", 7, {"x": 1}), (2, "training", 8, {"x": "NaN"})])
    series, x = SeriesQueries(store), Wanted(group="training", name="x")
    points = await series.points([1, 2], x, 40)
    first = [point for point in points if point.trial_id == 1]
    assert 20 < len(first) <= 40
    assert [point.steps for point in first] == sorted({point.steps for point in first})
    assert {0, 123, 321, 499} <= {point.steps for point in first}
    for part in range(10):
        inside = {n: values[n] for n in range(part * 50, part * 50 + 50)}
        kept = {p.steps for p in first if p.steps in inside}
        smallest, largest = min(inside, key=inside.__getitem__), max(inside, key=inside.__getitem__)
        assert kept == {part * 50, part * 50 + 49, smallest, largest}
    assert [(p.steps, float(p.value)) for p in points if p.trial_id == 2] == [(7, 1.0)]
    whole = await series.points([1], x, 500)
    assert [float(point.value) for point in whole] == values
    assert whole[250].epoch == 2.5


async def test_bounds_of_a_series(store: Store) -> None:
    reports = [(1, "validation", n, {"x": n, "epoch": n / 2}) for n in range(10)]
    await filled(store, reports)
    series = SeriesQueries(store)

    async def steps(*filters: Bound, **wanted: Any) -> list[int]:
        one = Wanted(group="validation", name="x", filters=filters, **wanted)
        return [point.steps for point in await series.points([1], one, 100)]

    assert await steps(steps=(3, 5)) == [3, 4, 5]
    assert await steps(after_id=8) == [8, 9]
    assert await steps(Bound(Axis.EPOCH, Comparison.GT, 3.5)) == [8, 9]
    assert await steps(Bound(Axis.BATCHES, Comparison.INCL, (1, 7, 99))) == [1, 7]
    assert await steps(Bound(Axis.BATCHES, Comparison.NOT_IN, (0, 1)), steps=(None, 3)) == [2, 3]
    assert await steps(Bound(Axis.TIME, Comparison.LTE, START + timedelta(seconds=2))) == [0, 1]
    assert await series.steps(1, "validation", "x") == list(range(10))
    assert await series.steps(1, "training", "x") == []
    near = await series.nearest(1, Wanted(group="validation", name="x"), at=20, margin=12)
    assert [(point.steps, point.trial_id) for point, _ in near] == [(9, 1)]
    names = {MetricName("training", "loss"), MetricName("own", "a.b")}
    assert await series.names([1]) == names


async def test_values_that_are_no_numbers_are_counted(store: Store) -> None:
    values = [(1, 1.0), (1, "NaN"), (1, "Infinity"), (2, 2.0), (1, "a"), (2, "-Infinity")]
    reports = [(trial, "training", 10 * n, {"x": value}) for n, (trial, value) in enumerate(values)]
    await filled(store, reports)
    found = await SeriesQueries(store).not_finite([1, 2], Wanted(group="training", name="x"))
    assert sorted(found) == [(1, 2, 10, 20), (2, 1, 50, 50)]
