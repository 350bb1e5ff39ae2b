"""What a sampler is asked, and what becomes of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from master.core.searcher.sampler_question import (
    ENOUGH,
    RANDOM_SHARE,
    Tried,
    hparams_at,
    is_random,
    question,
)
from master.core.searcher.search import Search, SearchState, replay
from master.core.searcher.state_json import state_from_json, state_to_json
from master.core.searcher.types import (
    Create,
    Event,
    InitialTrials,
    PointChosen,
    TrialExited,
    ValidationCompleted,
)
from windlass.base.formats.json_types import JsonMapping

SAMPLER = {"windlass_sampler": {"name": "optuna.tpe"}}
RANDOM = {
    "name": "random",
    "metric": "loss",
    "max_trials": 40,
    "max_concurrent_trials": 20,
    **SAMPLER,
}
ASHA = {
    "name": "async_halving",
    "metric": "loss",
    "time_metric": "epochs",
    "max_time": 4,
    "num_rungs": 3,
    "divisor": 2,
    "max_trials": 60,
    "max_concurrent_trials": 30,
    **SAMPLER,
}
SPACE = {
    "act": {"type": "categorical", "vals": ["relu", [1, 2], {"a": 1}]},
    "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
    "net": {"depth": {"type": "int", "minval": 1, "maxval": 8}, "bias": True},
    "x": {"type": "double", "minval": 0.0, "maxval": 1.0},
}


class Sampled:
    def __init__(self, searcher: dict[str, Any]) -> None:
        self.search = Search.from_config(searcher, SPACE, 3)
        self.events: list[Event] = []
        self.state: SearchState = self.search.start()
        self.points: dict[str, JsonMapping] = {}
        self.tell(InitialTrials())

    def tell(self, event: Event) -> None:
        self.state, actions = self.search.on(self.state, event)
        self.events.append(event)
        for action in actions:
            if isinstance(action, Create):
                self.points[action.request_id] = action.hparams

    def choose_all(self) -> None:
        for request_id, record in list(self.state.trials.items()):
            if record.awaits_point:
                self.tell(PointChosen(request_id, self.points[request_id]))

    def ask(self, metrics: dict[str, float]) -> dict[str, Any] | None:
        tried = [
            Tried(
                request_id=id_,
                hparams=hparams,
                metric=metrics.get(id_),
                has_ended=self.state.trials[id_].closed,
            )
            for id_, hparams in self.points.items()
        ]
        return question(
            self.search.space, self.state, tried, smaller_is_better=True, count=2, seed=5
        )


def test_only_with_a_sampler_a_trial_waits_for_its_point() -> None:
    sampled = Sampled(RANDOM)
    first, *_ = sampled.points
    assert all(record.awaits_point for record in sampled.state.trials.values())
    sampled.tell(PointChosen(first, {"lr": 0.5}))
    assert not sampled.state.trials[first].awaits_point
    again = state_from_json(json.loads(json.dumps(state_to_json(sampled.state))))
    assert again == sampled.state == replay(sampled.search, sampled.events)[0]
    plain = Search.from_config({**RANDOM, "windlass_sampler": None}, SPACE, 3)
    state, creates = plain.on(plain.start(), InitialTrials())
    assert not any(record.awaits_point for record in state.trials.values())
    assert [c.hparams for c in creates if isinstance(c, Create)] == list(sampled.points.values())


def test_it_is_asked_once_enough_trials_have_ended() -> None:
    sampled = Sampled(RANDOM)
    sampled.choose_all()
    ids = list(sampled.points)
    for request_id in ids[: ENOUGH - 1]:
        sampled.tell(TrialExited(request_id))
    metrics = {request_id: float(n) for n, request_id in enumerate(ids)}
    assert sampled.ask(metrics) is None
    sampled.tell(TrialExited(ids[ENOUGH - 1]))
    asked = sampled.ask(metrics)
    assert asked is not None
    assert asked["axes"] == [
        ["choice", 0, 2],
        ["float", -4.0, -1.0],
        ["int", 1, 8],
        ["float", 0.0, 1.0],
    ]
    assert [value for _, value in asked["done"]] == [float(n) for n in range(ENOUGH)]
    assert len(asked["pending"]) == len(ids) - ENOUGH
    """Those that run; what waits for a point is not there."""
    assert json.loads(json.dumps(asked)) == asked


def test_with_rungs_the_highest_with_enough_counts() -> None:
    sampled = Sampled(ASHA)
    sampled.choose_all()
    ids = list(sampled.points)
    for n, request_id in enumerate(ids):
        # Each is better than all before, so none is stopped at the lowest rung.
        sampled.tell(ValidationCompleted(request_id, {"loss": 1.0 - n / 100, "epochs": 1}))
    for request_id in ids[:ENOUGH]:
        sampled.tell(ValidationCompleted(request_id, {"loss": 0.5, "epochs": 2}))
    asked = sampled.ask({})
    assert asked is not None
    assert [value for _, value in asked["done"]] == [0.5] * ENOUGH
    assert len(asked["pending"]) == len(ids) - ENOUGH


def test_a_point_comes_back_as_it_was_asked() -> None:
    sampled = Sampled(RANDOM)
    sampled.choose_all()
    ids = list(sampled.points)
    for request_id in ids:
        sampled.tell(TrialExited(request_id))
    asked = sampled.ask(dict.fromkeys(ids, 1.0))
    assert asked is not None
    start = sampled.points[ids[0]]
    for (point, _), request_id in zip(asked["done"], ids, strict=True):
        back = hparams_at(sampled.search.space, start, point)
        expected = dict(sampled.points[request_id])
        assert back.pop("lr") == pytest.approx(expected.pop("lr"))
        assert back == expected


@pytest.mark.parametrize(
    ("point", "hparams"),
    [
        ([9, 5.0, -3, 7.0], {"act": {"a": 1}, "lr": 0.1, "depth": 1, "x": 1.0}),
        ([0.4, -9.0, 99, -1.0], {"act": "relu", "lr": 0.0001, "depth": 8, "x": 0.0}),
    ],
)
def test_no_point_leads_out_of_the_space(point: list[float], hparams: dict[str, Any]) -> None:
    sampled = Sampled(RANDOM)
    found = hparams_at(sampled.search.space, next(iter(sampled.points.values())), point)
    assert found["lr"] == pytest.approx(hparams["lr"])
    assert found["net"] == {"depth": hparams["depth"], "bias": True}
    assert (found["act"], found["x"]) == (hparams["act"], hparams["x"])


@pytest.mark.parametrize("point", [[], [1.0], [0.0, float("nan"), 1.0, 0.0]])
def test_what_is_no_point_is_refused(point: list[float]) -> None:
    sampled = Sampled(RANDOM)
    with pytest.raises(ValueError, match="not a point"):
        hparams_at(sampled.search.space, {}, point)


def test_some_points_stay_random() -> None:
    share = sum(map(is_random, range(2000))) / 2000
    assert share == pytest.approx(RANDOM_SHARE, abs=0.04)
