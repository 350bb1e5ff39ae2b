"""Hyperparameters and metrics of all trials in columns, on both databases."""

from __future__ import annotations

from typing import Any

from master.experiments.queries.trial_columns import (
    AxisKind,
    HyperparameterColumn,
    TrialColumnQueries,
    hyperparameter_columns,
)
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from tests.unit.finding.test_filters_in_sql import Draw, prepare

SPACE = {
    "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
    "net": {"depth": {"type": "int", "minval": 1, "maxval": 9}, "kind": "resnet"},
    "mix": {"type": "categorical", "vals": [1, "a", {"x": 1}, None]},
}


def summary(**metric: Any) -> dict[str, Any]:
    return {"validation_metrics": {"loss": metric}}


async def filled(store: Store) -> None:
    await prepare(store)
    unit, draw = UnitOfWork(), Draw(0)
    for id_ in (1, 2):
        unit.insert(tables.Experiment, {**draw.experiment(id_), "project_id": 1})
    rows = [
        (1, 1, 0.5, summary(min=0.5, max=2.0, last=0.7), {"lr": 0.1}),
        (2, 1, None, {}, {"net": {"depth": 3}}),
        (3, 1, 0.25, summary(min=0.25, max=0.5, last="NaN"), {"lr": 0.01, "mix": {"x": 1}}),
        (4, 2, 0.1, summary(min=0.1, max=0.1, last=0.1), {"lr": 7}),
        (5, 1, None, summary(last="word"), {"lr": 0.1}),
    ]
    for id_, experiment, best, said, hparams in rows:
        row = {"searcher_metric": best, "summary_metrics": said, "hparams": hparams}
        unit.insert(tables.Trial, {**draw.trial(id_, experiment), **row})
    await store.commit(unit)


async def test_the_best_come_first_and_the_rest_is_counted(store: Store) -> None:
    await filled(store)

    async def columns(**options: Any) -> Any:
        asked = {"group": "validation", "metric": "loss", "smaller_is_better": True, "limit": 9}
        return await TrialColumnQueries(store).columns(1, SPACE, **{**asked, **options})

    found = await columns()
    assert [one.id for one in found.trials] == [3, 1, 2, 5]
    assert [one.smallest and float(one.smallest) for one in found.trials] == [0.25, 0.5, None, None]
    assert [one.largest and float(one.largest) for one in found.trials] == [0.5, 2.0, None, None]
    assert [one.last for one in found.trials] == ["NaN", 0.7, None, None]
    assert {one.name: one.values for one in found.columns} == {
        "lr": [0.01, 0.1, None, 0.1],
        "mix": [{"x": 1}, None, None, None],
        "net.depth": [None, None, 3, None],
    }
    few = await columns(limit=1, smaller_is_better=False)
    assert ([one.id for one in few.trials], few.total) == ([1], 4)
    other = await columns(metric="other")
    assert [one.smallest for one in other.trials] == [None] * 4
    assert (await columns(group="training")).trials[0].last is None


def test_what_is_drawn_and_what_differs_has_a_column() -> None:
    trials = [
        {"lr": 0.1, "net": {"depth": 1, "kind": "resnet"}, "mix": {"x": 1}, "own": 1, "same": [1]},
        {"lr": 0.2, "net": {"depth": 2, "kind": "resnet"}, "mix": None, "own": True, "same": [1]},
        {"lr": 0.3, "net": "none", "same": [1]},
    ]
    assert hyperparameter_columns(SPACE, trials) == [
        HyperparameterColumn("lr", AxisKind.LOG, [0.1, 0.2, 0.3]),
        HyperparameterColumn("mix", AxisKind.CATEGORICAL, [{"x": 1}, None, None]),
        HyperparameterColumn("net.depth", AxisKind.INT, [1, 2, None]),
        HyperparameterColumn("net", AxisKind.OTHER, [None, None, "none"]),
        HyperparameterColumn("net.kind", AxisKind.OTHER, ["resnet", "resnet", None]),
        HyperparameterColumn("own", AxisKind.OTHER, [1, True, None]),
    ]
    assert hyperparameter_columns({}, []) == []
