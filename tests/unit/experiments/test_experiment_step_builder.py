"""A step in the making: what it was made from stays as it was, and it knows what it changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from master.core.persistent_map import PersistentMap
from master.experiments.lifecycle.state import ExperimentState, Phase, RunSettings, TrialState
from master.experiments.lifecycle.step_builder import Env, StepBuilder

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def trial(number: int, phase: Phase = Phase.ACTIVE) -> TrialState:
    return TrialState(
        id=number,
        request_id=f"r{number}",
        task_id=f"1.r{number}",
        hparams={},
        seed=0,
        created_at=NOW,
        phase=phase,
    )


def builder() -> tuple[ExperimentState, StepBuilder]:
    state = ExperimentState(
        id=1,
        job_id="j",
        owner_id=1,
        name="search",
        config=cast("Any", None),
        settings=RunSettings(pool="default", slots_per_trial=1),
        searcher=cast("Any", None),
        created_at=NOW,
        trials=PersistentMap({"r1": trial(1), "r2": trial(2)}),
        open_trials=2,
    )
    return state, StepBuilder(
        state,
        Env(
            now=NOW,
            search=cast("Any", None),
            next_trial_id=lambda: 3,
            next_metric_id=lambda: 1,
        ),
    )


def test_the_state_that_a_step_begins_with_stays_as_it_was() -> None:
    before, made = builder()
    made.put(trial(1, Phase.CANCELED))
    made.put(trial(3))
    assert {id_: t.phase for id_, t in before.trials.items()} == {
        "r1": Phase.ACTIVE,
        "r2": Phase.ACTIVE,
    }
    after = made.done().state
    assert {id_: t.phase for id_, t in after.trials.items()} == {
        "r1": Phase.CANCELED,
        "r2": Phase.ACTIVE,
        "r3": Phase.ACTIVE,
    }


def test_a_step_names_the_trials_that_it_changed() -> None:
    before, made = builder()
    made.put(trial(2, Phase.CANCELED))
    made.put(trial(3))
    made.put(trial(3, Phase.CANCELED))
    assert [(c.before, c.after) for c in made.done().trials] == [
        (before.trials["r2"], trial(2, Phase.CANCELED)),
        (None, trial(3, Phase.CANCELED)),
    ]


def test_a_trial_that_is_put_back_as_it_was_has_not_changed() -> None:
    before, made = builder()
    made.put(trial(1, Phase.CANCELED))
    made.put(before.trials["r1"])
    assert made.done().trials == ()


def test_open_trials_are_counted() -> None:
    _, made = builder()
    made.put(trial(1, Phase.CANCELED))
    assert made.state.open_trials == 1
    made.put(trial(3))
    made.put(trial(1, Phase.COMPLETED))
    assert made.state.open_trials == 2


def test_what_a_step_has_answered_stays_as_it_is() -> None:
    _, made = builder()
    made.put(trial(1, Phase.CANCELED))
    answered = made.done().state
    made.put(trial(2, Phase.CANCELED))
    assert answered.trials["r2"].phase is Phase.ACTIVE


def test_runs_of_one_step_queue_in_its_order() -> None:
    _, made = builder()
    times = [made.request_time() for _ in range(3)]
    assert times[0] == NOW
    assert times == sorted(set(times))
