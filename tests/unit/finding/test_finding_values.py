"""Columns, ranges, metadata values and labels: the same on both databases, whatever is in the JSON."""

from __future__ import annotations

import math
from typing import Any

from master.core.visibility import EVERYTHING, Visibility
from master.experiments.finding.columns import Kind, Table
from master.experiments.finding.values import ProjectValues
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.unit.finding.test_filters_in_sql import NOW, Draw, prepare

LOSS = {"type": "number", "min": -1, "max": 2.5, "mean": 1e300, "last": math.nan}
RUNS: tuple[dict[str, Any], ...] = (
    {
        "experiment_id": 1,
        "hparams": {"a": {"b": [1], "": {"é": True}}, 'q"': math.inf, "none": None, "": {}},
        "summary_metrics": {"avg_metrics": {"a.b": LOSS, "t": {"type": "string", "last": "x"}}},
        "run_metadata": {"k": ["B", "a", 1, "é"], "x": {"y": "in"}},
        "searcher_metric": 1.0,
    },
    {
        "experiment_id": 2,
        "hparams": {"a": {"b": None}, 'q"': 1, "none": None},
        "summary_metrics": {"own": {"a.b": {"type": "number", "last": 3}}, "avg_metrics": {}},
        "run_metadata": {"k": "a", "x": "out"},
        "searcher_metric": 2.0,
    },
    {
        "experiment_id": 2,
        "hparams": {},
        "summary_metrics": {"avg_metrics": {"a.b": {**LOSS, "max": 99}}},
        "run_metadata": None,
        "searcher_metric": 3.0,
    },
)


async def filled(store: Store) -> ProjectValues:
    await prepare(store)
    unit, draw = UnitOfWork(), Draw(0)
    for id_, labels in ((1, ["b", "é"]), (2, ["a", "b"])):
        experiment = {**draw.experiment(id_), "labels": labels, "project_id": id_}
        experiment["config"]["searcher"]["smaller_is_better"] = True
        unit.insert(tables.Experiment, experiment)
    for id_, run in enumerate(RUNS, 1):
        unit.insert(tables.Trial, {**draw.trial(id_, 1), **run})
    await store.commit(unit)
    return ProjectValues(store)


async def test_columns_of_what_is_inside_of_json(store: Store) -> None:
    values = await filled(store)
    found = await values.columns(0, Table.RUNS, EVERYTHING)
    kinds = {column.name: column.kind for column in found if not column.title}
    metrics = [name for name, kind in kinds.items() if name.startswith(("training", "own"))]
    assert metrics[:4] == [f"own.a.b.{word}" for word in ("min", "max", "mean", "last")]
    assert kinds["training.a.b.max"] is Kind.NUMBER
    assert kinds["training.t.last"] is Kind.TEXT
    free = {name: kind for name, kind in kinds.items() if name.startswith(("hp.", "metadata."))}
    assert free == {
        "hp.a..é": Kind.BOOLEAN,
        "hp.a.b": Kind.TAGS,
        "hp.none": None,
        'hp.q"': Kind.NUMBER,
        "metadata.k": None,
        "metadata.x": Kind.TEXT,
        "metadata.x.y": Kind.TEXT,
    }
    second = await values.columns(2, Table.EXPERIMENTS, EVERYTHING)
    assert {c.name for c in second if c.name.startswith("hp.")} == {"hp.a.b", 'hp.q"', "hp.none"}
    nothing = await values.columns(1, Table.RUNS, Visibility(frozenset({2})))
    assert not [column for column in nothing if not column.title]


async def test_ranges_are_those_of_best_trials(store: Store) -> None:
    values = await filled(store)
    found = await values.metric_ranges(0, NOW, EVERYTHING)
    assert found == [
        ("searcherMetricsVal", 1.0, 2.0),
        ("training.a.b.min", -1.0, -1.0),
        ("training.a.b.max", 2.5, 2.5),
        ("training.a.b.mean", 1e300, 1e300),
        ("own.a.b.last", 3.0, 3.0),
    ]
    assert await values.metric_ranges(7, NOW, EVERYTHING) == []


async def test_texts_of_metadata_and_labels(store: Store) -> None:
    values = await filled(store)
    assert await values.metadata_values(0, ("k",), EVERYTHING) == ["B", "a", "é"]
    assert await values.metadata_values(2, ("k",), EVERYTHING) == ["a"]
    assert await values.metadata_values(0, ("x", "y"), EVERYTHING) == ["in"]
    assert await values.labels(0, EVERYTHING) == ["b", "a", "é"]
    assert await values.labels(0, Visibility(frozenset({1}))) == ["b", "é"]
