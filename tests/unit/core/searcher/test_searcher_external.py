"""A search whose trials a client adds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from master.core.searcher.event_json import event_from_json, event_to_json
from master.core.searcher.external import completed
from master.core.searcher.preview import planned_trials
from master.core.searcher.search import Search, SearchState, replay
from master.core.searcher.space import parse_space
from master.core.searcher.state_json import state_from_json, state_to_json
from master.core.searcher.types import (
    Action,
    Create,
    Event,
    ExitReason,
    InitialTrials,
    SearchClosed,
    Shutdown,
    Stop,
    StopAsked,
    TrialAdded,
    TrialExited,
    TrialExitedEarly,
)
from windlass.base.errors import InvalidArgument, InvalidState

SETTINGS = {"name": "windlass_external", "metric": "loss"}
SPACE = {
    "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
    "net": {"depth": {"type": "int", "minval": 1, "maxval": 8}, "act": "relu"},
    "batch": 64,
}


class Driven:
    """A search, and what was told to it."""

    def __init__(self) -> None:
        self.search = Search.from_config(SETTINGS, SPACE, 1)
        self.state: SearchState = self.search.start()
        self.events: list[Event] = []
        assert self.tell(InitialTrials()) == ()

    def tell(self, event: Event) -> tuple[Action, ...]:
        self.state, actions = self.search.on(self.state, event)
        self.events.append(event)
        return actions

    def add(self, key: str, checkpoint: str | None = None) -> Create:
        (create,) = self.tell(TrialAdded(key, {"lr": 0.1}, checkpoint))
        assert isinstance(create, Create)
        return create


def test_it_ends_when_it_is_closed_and_the_last_trial_has_ended() -> None:
    driven = Driven()
    first, second = driven.add("1"), driven.add("2", checkpoint="of-1")
    assert (first.hparams, first.checkpoint, second.checkpoint) == ({"lr": 0.1}, None, "of-1")
    assert driven.tell(TrialExited(first.request_id)) == ()
    assert driven.tell(SearchClosed()) == driven.tell(SearchClosed()) == ()
    assert not driven.search.is_over(driven.state)
    assert driven.tell(TrialExited(second.request_id)) == (Shutdown(),)
    assert driven.search.is_over(driven.state)


def test_it_stays_open_while_nothing_runs() -> None:
    driven = Driven()
    only = driven.add("1")
    assert driven.tell(TrialExited(only.request_id)) == ()
    assert not driven.search.is_over(driven.state)
    assert driven.tell(SearchClosed()) == (Shutdown(),)


def test_closed_before_any_trial_it_has_not_failed() -> None:
    assert Driven().tell(SearchClosed()) == (Shutdown(),)


def test_it_failed_if_every_trial_did() -> None:
    driven = Driven()
    only = driven.add("1")
    driven.tell(TrialExitedEarly(only.request_id, ExitReason.ERRORED))
    driven.tell(TrialExited(only.request_id))
    assert driven.tell(SearchClosed()) == (Shutdown(failure=True),)


def test_a_repeated_key_adds_no_trial() -> None:
    driven = Driven()
    driven.add("1")
    before = driven.state
    assert driven.tell(TrialAdded("1", {"lr": 0.1})) == ()
    assert driven.state == before
    driven.tell(SearchClosed())
    assert driven.tell(TrialAdded("1", {"lr": 0.1})) == ()
    with pytest.raises(InvalidState, match="closed"):
        driven.tell(TrialAdded("2", {}))


def test_a_stop_is_asked_once() -> None:
    driven = Driven()
    only = driven.add("1").request_id
    assert driven.tell(StopAsked(only)) == (Stop(only),)
    assert driven.tell(StopAsked(only)) == ()


def test_after_a_restart_it_goes_on_as_it_was() -> None:
    driven = Driven()
    first = driven.add("1", checkpoint="c")
    driven.tell(StopAsked(first.request_id))
    snapshot = json.loads(json.dumps(state_to_json(driven.state)))
    driven.tell(TrialExited(first.request_id))
    driven.add("NaN")
    driven.tell(SearchClosed())
    stored = [json.loads(json.dumps(event_to_json(event))) for event in driven.events]
    events = [event_from_json(one) for one in stored]
    assert events == driven.events
    assert replay(driven.search, events)[0] == driven.state
    after = state_from_json(snapshot)
    for event in events[3:]:
        after, _ = driven.search.on(after, event)
    assert after == driven.state


def test_other_searches_make_their_trials_themselves() -> None:
    search = Search.from_config({"name": "single", "metric": "loss"}, {}, 1)
    for event in (TrialAdded("1", {}), SearchClosed()):
        with pytest.raises(InvalidState, match="windlass_external"):
            search.on(search.start(), event)


def test_nothing_is_planned() -> None:
    assert planned_trials(Driven().search) == ()


@pytest.mark.parametrize(
    ("given", "full"),
    [
        (
            {"lr": 0.1, "net": {"depth": 2}},
            {"lr": 0.1, "net": {"depth": 2, "act": "relu"}, "batch": 64},
        ),
        (
            {"lr": 1, "batch": 8, "more": [1], "net": {"depth": 2, "act": "x"}},
            {"lr": 1, "batch": 8, "more": [1], "net": {"depth": 2, "act": "x"}},
        ),
    ],
)
def test_constants_may_be_left_out(given: dict[str, Any], full: dict[str, Any]) -> None:
    assert completed(parse_space(SPACE), given) == full


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"net": {"depth": 1}}, "hparams.lr: missing"),
        ({"lr": 1}, "hparams.net.depth: missing"),
        ({"lr": 1, "net": 3}, "hparams.net: expected an object"),
    ],
)
def test_what_has_a_range_needs_a_value(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        completed(parse_space(SPACE), given)
