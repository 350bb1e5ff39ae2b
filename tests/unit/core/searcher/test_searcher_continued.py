"""Trials of a search that had ended and run again."""

from __future__ import annotations

import pytest

from master.core.searcher.event_json import event_from_json, event_to_json
from master.core.searcher.search import Search, SearchState, replay
from master.core.searcher.types import (
    Create,
    Event,
    ExitReason,
    InitialTrials,
    Shutdown,
    TrialContinued,
    TrialExited,
    TrialExitedEarly,
    TrialProgress,
)

SPACE = {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}}
SETTINGS = {
    "name": "random",
    "metric": "loss",
    "smaller_is_better": True,
    "max_trials": 3,
    "max_concurrent_trials": 2,
}


def begun() -> tuple[Search, SearchState, list[str], list[Event]]:
    search = Search.from_config(SETTINGS, SPACE, 1)
    state, actions = search.on(search.start(), InitialTrials())
    ids = [action.request_id for action in actions if isinstance(action, Create)]
    return search, state, ids, [InitialTrials()]


def test_the_search_is_over_once_more_when_they_have_ended_again() -> None:
    search, state, (first, second), events = begun()
    failed: list[Event] = [
        TrialExitedEarly(first, ExitReason.ERRORED),
        TrialExited(first),
        TrialProgress(second, 0.5),
        TrialExited(second),
    ]
    for event in failed:
        state, actions = search.on(state, event)
        events.append(event)
    (third,) = set(state.trials) - {first, second}
    state, actions = search.on(state, TrialExited(third))
    assert actions == (Shutdown(),)
    state, actions = search.on(state, TrialContinued(first))
    assert (actions, search.is_over(state)) == ((), False)
    assert search.on(state, TrialContinued(first)) == (state, ())
    state, actions = search.on(state, TrialExited(first))
    assert (actions, search.is_over(state)) == ((Shutdown(),), True)
    events += [TrialExited(third), TrialContinued(first), TrialExited(first)]
    stored = [event_from_json(event_to_json(event)) for event in events]
    assert replay(search, stored)[0] == state


@pytest.mark.parametrize("told", [True, False])
def test_one_whose_end_was_never_told_makes_the_next_as_it_ends(told: bool) -> None:
    """The search of a cancelled experiment is asked nothing any more."""
    search, state, (first, _), _ = begun()
    if told:
        state, _ = search.on(state, TrialProgress(first, 0.9))
    state, _ = search.on(state, TrialContinued(first))
    assert state.trials[first].progress == 0.0
    _, actions = search.on(state, TrialExited(first))
    assert [type(action) for action in actions] == [Create]
