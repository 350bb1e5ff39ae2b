"""Trials that wait for their hyperparameters."""

from __future__ import annotations

from functools import partial

from master.allocations.effects import AskResources
from master.core.reasons import ReasonKind
from master.core.searcher.types import PointChosen
from master.experiments.lifecycle import machine
from master.experiments.lifecycle.persistence import trials_in_order
from master.experiments.lifecycle.points import choose_points
from master.experiments.lifecycle.state import Phase
from master.experiments.waiting import waiting_reason
from master.store import tables
from tests.fakes.pure_experiment import PureExperiment

SAMPLED = {
    "name": "random",
    "metric": "loss",
    "max_trials": 2,
    "max_concurrent_trials": 2,
    "windlass_sampler": {"name": "optuna.tpe"},
}


def test_a_trial_asks_for_resources_once_its_point_is_chosen() -> None:
    experiment = PureExperiment(SAMPLED)
    first, second = experiment.trial(0), experiment.trial(1)
    assert (first.allocation, second.allocation) == (None, None)
    reason = waiting_reason(first, lambda _: None)
    assert reason is not None
    assert reason.kind is ReasonKind.CHOOSING
    points = {first.request_id: {"lr": 0.5}}
    assert experiment.do(partial(choose_points, points=points)) == [
        AskResources(experiment.run_of(0).id)
    ]
    assert experiment.trial(0).hparams == {"lr": 0.5}
    assert experiment.log[-1].event == PointChosen(first.request_id, {"lr": 0.5})
    assert experiment.trial(1).allocation is None
    before = experiment.state
    assert experiment.do(partial(choose_points, points={first.request_id: {"lr": 0.7}})) == []
    assert experiment.state == before, "it is chosen once"


def test_one_that_is_killed_meanwhile_stays_ended() -> None:
    experiment = PureExperiment(SAMPLED)
    first = experiment.trial()
    experiment.do(partial(machine.kill_trial, request_id=first.request_id))
    assert experiment.trial().phase is Phase.CANCELED
    before = experiment.state
    assert experiment.do(partial(choose_points, points={first.request_id: {"lr": 0.5}})) == []
    assert experiment.state == before


def test_after_a_restart_it_still_waits() -> None:
    experiment = PureExperiment(SAMPLED)
    chosen, waiting = experiment.trial(0), experiment.trial(1)
    experiment.do(partial(choose_points, points={chosen.request_id: chosen.hparams}))
    rows = [_row(trial.id, trial.request_id) for trial in (chosen, waiting)]
    restored = trials_in_order(rows, {}, experiment.state.searcher)
    assert not restored[chosen.request_id].awaits_point
    assert restored[waiting.request_id].awaits_point


def _row(id_: int, request_id: str) -> tables.Trial:
    return tables.Trial(
        id=id_,
        experiment_id=1,
        request_id=request_id,
        task_id=f"1.{request_id}",
        state="ACTIVE",
        hparams={},
        seed=1,
        avoids=[],
        summary_metrics={},
        metric_groups={},
        created_at=PureExperiment().now,
    )
