"""Searches whose trials run to their own end: single, random, grid."""

from __future__ import annotations

from typing import Any

import pytest

from master.core.searcher.search import Search, SearchState
from master.core.searcher.state_json import state_from_json, state_to_json
from master.core.searcher.types import (
    Action,
    Create,
    ExitReason,
    InitialTrials,
    Shutdown,
    TrialCreated,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
    ValidationCompleted,
)

SPACE: dict[str, Any] = {"x": {"type": "int", "minval": 0, "maxval": 5, "count": 6}, "fixed": 1}


def begin(name: str, **settings: Any) -> tuple[Search, SearchState, list[Create]]:
    search = Search.from_config({"name": name, "metric": "loss", **settings}, SPACE, 5)
    state, actions = search.on(search.start(), InitialTrials())
    creates = [a for a in actions if isinstance(a, Create)]
    for create in creates:
        state, _ = search.on(state, TrialCreated(create.request_id))
    return search, state, creates


def end(
    search: Search, state: SearchState, create: Create, reason: ExitReason | None = None
) -> tuple[SearchState, list[Action]]:
    actions: list[Action] = []
    if reason is not None:
        state, early = search.on(state, TrialExitedEarly(create.request_id, reason))
        actions += early
    state, late = search.on(state, TrialExited(create.request_id))
    return state, [*actions, *late]


@pytest.mark.parametrize(
    ("max_trials", "concurrent", "first"), [(10, 3, 3), (10, 0, 10), (2, 16, 2)]
)
def test_random_begins_with_as_many_as_may_live(
    max_trials: int, concurrent: int, first: int
) -> None:
    _, _, creates = begin("random", max_trials=max_trials, max_concurrent_trials=concurrent)
    assert len(creates) == first


@pytest.mark.parametrize("reason", [None, *ExitReason])
def test_random_replaces_only_invalid_trials(reason: ExitReason | None) -> None:
    search, state, creates = begin("random", max_trials=4, max_concurrent_trials=2)
    waiting, made = list(creates), len(creates)
    first = True
    while waiting:
        state, actions = end(search, state, waiting.pop(0), reason if first else None)
        first = False
        waiting += [a for a in actions if isinstance(a, Create)]
        made += sum(isinstance(a, Create) for a in actions)
    is_invalid = reason in (ExitReason.INVALID_HP, ExitReason.INIT_INVALID_HP)
    assert made == (5 if is_invalid else 4)
    assert actions == [Shutdown()]
    assert search.is_over(state)


@pytest.mark.parametrize(
    ("reason", "shutdown"),
    [
        (None, Shutdown()),
        (ExitReason.INVALID_HP, Shutdown()),
        (ExitReason.ERRORED, Shutdown(failure=True)),
        (ExitReason.USER_CANCELED, Shutdown(cancel=True)),
    ],
)
def test_single_is_one_trial_and_never_replaced(
    reason: ExitReason | None, shutdown: Shutdown
) -> None:
    search, state, creates = begin("single")
    assert len(creates) == 1
    assert creates[0].hparams["x"] in range(6)
    state, actions = end(search, state, creates[0], reason)
    assert actions == [shutdown]


@pytest.mark.parametrize("reason", [None, *ExitReason])
def test_grid_visits_every_point_once_from_the_last(reason: ExitReason | None) -> None:
    search, state, waiting = begin("grid", max_concurrent_trials=2)
    seen = []
    while waiting:
        create = waiting.pop(0)
        seen.append(create.hparams)
        state, actions = end(search, state, create, reason)
        waiting += [a for a in actions if isinstance(a, Create)]
    assert seen == [{"fixed": 1, "x": x} for x in (5, 4, 3, 2, 1, 0)]
    assert search.is_over(state)


def test_a_grid_over_nothing_is_one_trial() -> None:
    search = Search.from_config({"name": "grid", "metric": "loss"}, {}, 0)
    _, actions = search.on(search.start(), InitialTrials())
    assert [a.hparams for a in actions if isinstance(a, Create)] == [{}]


def test_validations_do_not_matter_even_without_the_metric() -> None:
    search, state, creates = begin("random", max_trials=2)
    assert search.on(state, ValidationCompleted(creates[0].request_id, {}))[1] == ()


def test_progress_is_the_mean_of_known_trials_without_invalid_ones() -> None:
    search, state, (a, b) = begin("random", max_trials=3, max_concurrent_trials=2)
    assert search.progress(search.start()) == 0
    assert search.progress(state) == 0
    state, _ = search.on(state, TrialProgress(a.request_id, 0.5))
    assert search.progress(state) == 0.25
    state, _ = search.on(state, TrialExitedEarly(b.request_id, ExitReason.INVALID_HP))
    assert search.progress(state) == 0.5
    state, _ = search.on(state, TrialExited(a.request_id))
    assert search.progress(state) == 1


@pytest.mark.parametrize("name", ["random", "grid"])
def test_progress_counts_a_trial_when_it_is_received(name: str) -> None:
    trials = {"max_trials": 6} if name == "random" else {}
    search, state, (only,) = begin(name, max_concurrent_trials=1, **trials)
    state, actions = end(search, state, only)
    (successor,) = (action for action in actions if isinstance(action, Create))
    assert search.progress(state) == 1
    assert search.progress(state_from_json(state_to_json(state))) == 1
    state, _ = search.on(state, TrialCreated(successor.request_id))
    assert search.progress(state) == 0.5
    assert search.progress(state_from_json(state_to_json(state))) == 0.5


@pytest.mark.parametrize(
    ("fraction", "progress"),
    [(7.0, 1.0), (-1.0, 0.0), (float("nan"), 0.3), (float("inf"), 0.3), (0.0, 0.0)],
)
def test_progress_stays_a_fraction(fraction: float, progress: float) -> None:
    search, state, (only,) = begin("single")
    state, _ = search.on(state, TrialProgress(only.request_id, 0.3))
    state, _ = search.on(state, TrialProgress(only.request_id, fraction))
    assert search.progress(state) == progress


def test_repeated_events_change_nothing() -> None:
    search, state, (first, second) = begin("random", max_trials=2, max_concurrent_trials=2)
    assert search.on(state, InitialTrials()) == (state, ())
    assert search.on(state, TrialCreated(first.request_id)) == (state, ())
    state, _ = end(search, state, first, ExitReason.ERRORED)
    for event in (
        TrialCreated(first.request_id),
        TrialExitedEarly(first.request_id, ExitReason.INVALID_HP),
        TrialExited(first.request_id),
        TrialProgress(first.request_id, 0.1),
        ValidationCompleted(first.request_id, {}),
    ):
        assert search.on(state, event) == (state, ())
    state, actions = end(search, state, second)
    assert actions == [Shutdown()]
    assert search.on(state, TrialExited(second.request_id)) == (state, ())
    assert search.on(state, InitialTrials()) == (state, ())


def test_only_the_first_early_exit_of_a_trial_counts() -> None:
    search, state, (only,) = begin("random", max_trials=1)
    state, _ = search.on(state, TrialExitedEarly(only.request_id, ExitReason.ERRORED))
    again = TrialExitedEarly(only.request_id, ExitReason.INVALID_HP)
    assert search.on(state, again) == (state, ())
    assert search.on(state, TrialExited(only.request_id))[1] == (Shutdown(failure=True),)
