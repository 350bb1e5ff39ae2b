"""What must hold for every search, however its trials behave."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from searcher_play import Play, stored

from master.core.searcher.adaptive import Tournament, TournamentState
from master.core.searcher.asha import Asha, AshaState
from master.core.searcher.event_json import action_to_json, event_from_json
from master.core.searcher.random_search import CountState, RandomSearch
from master.core.searcher.rung_view import describe_rungs
from master.core.searcher.search import Search, SearchState, replay, resume
from master.core.searcher.state_json import state_from_json, state_to_json
from master.core.searcher.types import Shutdown
from tests.examples import examples

SPACE: dict[str, Any] = {
    "lr": {"type": "log", "base": 10, "minval": -5, "maxval": 0, "count": 3},
    "net": {"width": {"type": "int", "minval": 1, "maxval": 9, "count": 2}, "depth": 3},
}

halving = {
    "metric": st.just("loss"),
    "time_metric": st.just("batches"),
    "smaller_is_better": st.booleans(),
    "max_time": st.integers(1, 64),
    "divisor": st.sampled_from([2, 3, 4, 1.5]),
    "max_trials": st.integers(1, 25),
    "max_concurrent_trials": st.integers(0, 8),
}
searchers: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"name": st.just("single")}),
    st.fixed_dictionaries({"name": st.just("grid"), "max_concurrent_trials": st.integers(0, 4)}),
    st.fixed_dictionaries(
        {
            "name": st.just("random"),
            "max_trials": st.integers(1, 12),
            "max_concurrent_trials": st.integers(0, 5),
        }
    ),
    st.fixed_dictionaries(
        {"name": st.just("async_halving"), "num_rungs": st.integers(1, 4), **halving}
    ),
    st.fixed_dictionaries(
        {
            "name": st.just("adaptive_asha"),
            "mode": st.sampled_from(["aggressive", "standard", "conservative"]),
            "bracket_rungs": st.sampled_from([[], [], [2, 1], [3, 3, 1]]),
            **halving,
        }
    ),
)
seeds = st.integers(0, 2**32 - 1)


def check_asha(rule: Asha, state: AshaState) -> None:
    alive = sum(not t.ended for t in state.trials.values())
    counted = len(state.trials) - state.invalid
    assert counted <= rule.max_trials
    if state.trials and counted < rule.max_trials:
        assert alive == rule.first_trials, "one successor for each trial that ends"
    assert alive <= rule.first_trials
    for index, rung in enumerate(state.rungs):
        metrics = [e.metric for e in rung.entries]
        ids = {e.request_id for e in rung.entries}
        assert metrics == sorted(metrics)
        assert len(ids) == len(rung.entries), "a trial is entered once per rung"
        if index:
            assert ids <= {e.request_id for e in state.rungs[index - 1].entries}


def checker(search: Search) -> Any:
    def check(state: SearchState) -> None:
        progress = search.progress(state)
        assert math.isfinite(progress)
        assert 0 <= progress <= 1
        match search.method, state.method:
            case Asha() as rule, AshaState() as part:
                check_asha(rule, part)
            case Tournament() as rules, TournamentState() as parts:
                for rule, part in zip(rules.brackets, parts.brackets, strict=True):
                    check_asha(rule, part)
            case RandomSearch() as rule, CountState() as count:
                live = len(state.trials) - state.closed
                assert live <= rule.first_trials
                missing = rule.max_trials - count.created
                if state.trials:
                    assert live >= min(missing, rule.first_trials), "someone left to make them"

    return check


def quota(search: Search) -> int:
    match search.method:
        case Tournament(brackets):
            return sum(b.max_trials for b in brackets)
        case Asha() | RandomSearch() as rule:
            return rule.max_trials
    raise AssertionError(search.method)


def play(searcher: dict[str, Any], seed: int, chance: int) -> Play:
    search = Search.from_config(searcher, SPACE, seed)
    return Play(search, random.Random(chance), checker(search)).run()


def says(answers: list[Any]) -> str:
    return json.dumps([[action_to_json(a) for a in actions] for actions in answers])


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(searcher=searchers, seed=seeds, chance=seeds)
def test_every_search_ends_once_with_its_whole_quota(
    searcher: dict[str, Any], seed: int, chance: int
) -> None:
    game = play(searcher, seed, chance)
    assert game.search.is_over(game.state)
    shutdowns = [
        (i, a) for i, acts in enumerate(game.answers) for a in acts if isinstance(a, Shutdown)
    ]
    assert len(shutdowns) == 1
    assert game.answers[shutdowns[0][0]][-1] == shutdowns[0][1]
    assert not any(game.answers[shutdowns[0][0] + 1 :])
    replaces = searcher["name"] not in ("single", "grid")
    assert len(game.creates) == quota(game.search) + (game.replaced if replaces else 0)
    assert len({c.request_id for c in game.creates}) == len(game.creates)


@settings(max_examples=examples(200), deadline=None)
@given(searcher=searchers, seed=seeds, chance=seeds)
def test_stored_events_reproduce_the_actions(
    searcher: dict[str, Any], seed: int, chance: int
) -> None:
    game = play(searcher, seed, chance)
    again = Search.from_config(searcher, SPACE, seed)
    state, answers = replay(again, [event_from_json(e) for e in stored(game.events)])
    assert says(answers) == says(game.answers)
    assert state == game.state


@settings(max_examples=examples(200), deadline=None)
@given(searcher=searchers, seed=seeds, chance=seeds, where=st.floats(0, 1))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(
    searcher: dict[str, Any], seed: int, chance: int, where: float
) -> None:
    game = play(searcher, seed, chance)
    at = int(where * (len(game.states) - 1))
    snapshot = json.dumps(state_to_json(game.states[at]), allow_nan=False, sort_keys=True)
    restored = state_from_json(json.loads(snapshot))
    assert restored == game.states[at]
    state, answers = resume(game.search, restored, game.events[at + 1 :])
    assert says(answers) == says(game.answers[at + 1 :])
    assert state == game.state


@settings(max_examples=examples(150), deadline=None)
@given(searcher=searchers, seed=seeds, chances=st.tuples(seeds, seeds))
def test_a_seed_gives_the_same_trials_in_the_same_order_whatever_happens(
    searcher: dict[str, Any], seed: int, chances: tuple[int, int]
) -> None:
    one, other = (play(searcher, seed, chance).creates for chance in chances)
    common = min(len(one), len(other))
    assert one[:common] == other[:common]


@settings(max_examples=examples(150), deadline=None)
@given(searcher=searchers, seed=seeds, chance=seeds)
def test_screens_see_each_promotion_in_the_rung_above(
    searcher: dict[str, Any], seed: int, chance: int
) -> None:
    game = play(searcher, seed, chance)
    views = describe_rungs(game.state)
    assert bool(views) == (searcher["name"] in ("async_halving", "adaptive_asha"))
    for view in views:
        above = [v for v in views if (v.bracket, v.rung) == (view.bracket, view.rung + 1)]
        entered = {e.request_id for v in above for e in v.entries}
        promoted = {e.request_id for e in view.entries if e.promoted}
        assert entered <= promoted
        assert bool(above) or not promoted
        worst_first = [e.metric is None for e in view.entries]
        assert worst_first == sorted(worst_first), "what has no number ranks last"
