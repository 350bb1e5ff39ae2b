"""The stopping rule, step by step: who goes on, who is stopped, who gets a successor."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.searcher.asha import Asha, AshaState
from master.core.searcher.rung_view import RungEntryView, describe_rungs, metric_to_go_on
from master.core.searcher.search import Search, SearchState
from master.core.searcher.types import (
    Action,
    Create,
    ExitReason,
    InitialTrials,
    Shutdown,
    Stop,
    TrialExited,
    TrialExitedEarly,
    ValidationCompleted,
)
from windlass.base.errors import InvalidArgument, NotFound

INVALID = [ExitReason.INVALID_HP, ExitReason.INIT_INVALID_HP]
FAILED = [ExitReason.ERRORED, ExitReason.USER_CANCELED, ExitReason.USER_REQUESTED_STOP]


class Game:
    """Plays one search and names its trials 0, 1, 2... in the order of their creation."""

    def __init__(self, **settings: Any) -> None:
        searcher = {
            "name": "async_halving",
            "metric": "loss",
            "time_metric": "batches",
            "max_time": 900,
            "divisor": 3,
            "num_rungs": 3,
            "max_trials": 20,
            "max_concurrent_trials": 4,
        }
        lr = {"type": "double", "minval": 0, "maxval": 1}
        self.search = Search.from_config(searcher | settings, {"lr": lr}, 42)
        self.state: SearchState = self.search.start()
        self.ids: list[str] = []
        self.begun = self.take(InitialTrials())

    def take(self, event: Any) -> list[str]:
        """The actions in words."""
        self.state, actions = self.search.on(self.state, event)
        return [self._say(a) for a in actions]

    def _say(self, action: Action) -> str:
        match action:
            case Create(request_id):
                self.ids.append(request_id)
                return f"create {len(self.ids) - 1}"
            case Stop(request_id):
                return f"stop {self.ids.index(request_id)}"
            case Shutdown(cancel, failure):
                return f"shutdown {cancel=} {failure=}"

    def report(self, trial: int, loss: Any, batches: Any = 100) -> list[str]:
        metrics = {"loss": loss, "batches": batches}
        return self.take(ValidationCompleted(self.ids[trial], metrics))

    def early(self, trial: int, reason: ExitReason) -> list[str]:
        return self.take(TrialExitedEarly(self.ids[trial], reason))

    def exit(self, trial: int) -> list[str]:
        return self.take(TrialExited(self.ids[trial]))

    def asha(self) -> AshaState:
        assert isinstance(self.state.method, AshaState)
        return self.state.method

    def rung(self, index: int) -> list[tuple[int, float | None, bool]]:
        view = describe_rungs(self.state)[index]
        return [(self.ids.index(e.request_id), e.metric, e.promoted) for e in view.entries]


def test_the_search_begins_with_as_many_as_may_live() -> None:
    assert Game().begun == ["create 0", "create 1", "create 2", "create 3"]
    assert len(Game(max_trials=2).begun) == 2
    assert len(Game(max_concurrent_trials=0).begun) == 9
    assert len(Game(max_concurrent_trials=0, max_trials=5).begun) == 5


def test_the_first_at_a_rung_goes_on_and_later_ones_must_be_among_the_best_third() -> None:
    game = Game()
    assert game.report(0, 0.5) == []
    assert game.report(1, 0.6) == ["stop 1", "create 4"]
    assert game.report(2, 0.4) == []
    assert game.report(3, 0.45) == ["stop 3", "create 5"]
    assert game.rung(0) == [(2, 0.4, True), (3, 0.45, False), (0, 0.5, True), (1, 0.6, False)]


def test_reports_between_rungs_are_ignored() -> None:
    game = Game()
    assert game.report(0, 0.1, 99) == []
    assert game.rung(0) == []
    assert game.report(0, 0.9, 100.7) == []
    assert game.report(0, 0.1, 299) == []
    assert game.rung(0) == [(0, 0.9, True)]
    assert game.rung(1) == []


def test_a_late_report_passes_several_rungs_and_the_top_stops() -> None:
    game = Game()
    assert game.report(0, 0.3, 5000) == ["stop 0", "create 4"]
    assert [game.rung(i) for i in range(3)] == [
        [(0, 0.3, True)],
        [(0, 0.3, True)],
        [(0, 0.3, False)],
    ]


def test_ties_favour_the_later_report() -> None:
    game = Game()
    for trial in range(4):
        assert game.report(trial, 1.0) == []
    assert [entry[0] for entry in game.rung(0)] == [3, 2, 1, 0]


def test_larger_can_be_better_and_screens_show_the_users_sign() -> None:
    game = Game(smaller_is_better=False)
    assert game.report(0, 0.5) == []
    assert game.report(1, 0.4) == ["stop 1", "create 4"]
    assert game.report(2, 0.9) == []
    game.early(3, ExitReason.ERRORED)
    assert game.rung(0) == [(2, 0.9, True), (0, 0.5, True), (1, 0.4, False), (3, None, False)]


@pytest.mark.parametrize("smaller_is_better", [True, False])
@pytest.mark.parametrize(
    "loss",
    [
        *(math.nan, math.inf, -math.inf, "NaN", "Infinity", "-Infinity"),
        pytest.param(10**400, id="huge"),
    ],
)
def test_a_diverged_trial_ranks_worst_and_harms_no_other(
    loss: Any, smaller_is_better: bool
) -> None:
    game = Game(smaller_is_better=smaller_is_better)
    game.report(0, 1e300)
    game.report(1, -1e300)
    assert game.report(2, loss)[0] == "stop 2"
    assert game.rung(0)[-1] == (2, None, False)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (
            {"batches": 1, "acc": 2},
            'metric "loss" of the searcher was not in the validation metrics; reported: acc, batches',
        ),
        ({"loss": None, "batches": 1}, r"error parsing searcher metric \(loss\) from validation"),
        ({"loss": "bad", "batches": 1}, r"searcher metric \(loss\) .* 'bad' is not a number"),
        ({"loss": True, "batches": 1}, r"searcher metric \(loss\) .* True is not a number"),
        ({"loss": 1}, 'metric "batches" of the searcher was not in .*; reported: loss'),
        ({"loss": 1, "batches": "9"}, r"error parsing searcher time metric \(batches\) in valid"),
        ({"loss": 1, "batches": "NaN"}, r"time metric \(batches\) .* not a length of training"),
    ],
)
def test_a_report_without_the_numbers_is_an_error(metrics: Any, message: str) -> None:
    game = Game()
    before = game.state
    with pytest.raises(InvalidArgument, match=message):
        game.take(ValidationCompleted(game.ids[0], metrics))
    assert game.state is before


def test_reports_of_a_stopped_trial_are_ignored_whatever_they_hold() -> None:
    game = Game()
    game.report(0, 0.1)
    assert game.report(1, 0.9) == ["stop 1", "create 4"]
    before = game.state
    assert game.report(1, 0.01, 300) == []
    assert game.take(ValidationCompleted(game.ids[1], {})) == []
    assert game.state is before


@pytest.mark.parametrize("reason", FAILED)
def test_a_failed_trial_counts_ranks_worst_and_has_a_successor(reason: ExitReason) -> None:
    game = Game(max_trials=5)
    game.report(0, 0.5)
    assert game.early(0, reason) == ["create 4"]
    assert game.rung(1) == [(0, None, False)]
    assert game.early(1, reason) == []
    assert game.rung(0) == [(0, 0.5, True), (1, None, False)]
    assert game.early(1, reason) == []
    assert game.exit(0) == []
    assert game.exit(1) == []


@pytest.mark.parametrize("reason", INVALID)
def test_an_invalid_trial_is_replaced_beyond_the_quota_and_leaves_its_rungs(
    reason: ExitReason,
) -> None:
    game = Game(max_trials=4)
    game.report(0, 0.5, 300)
    assert game.early(0, reason) == ["stop 0", "create 4"]
    assert [game.rung(i) for i in range(3)] == [[], [], []]
    assert game.exit(0) == []
    assert game.early(4, reason) == ["stop 4", "create 5"]
    assert game.asha().invalid == 2


@pytest.mark.parametrize("reason", [*FAILED, *INVALID])
def test_what_a_stopped_trial_does_afterwards_changes_no_rung_and_no_quota(
    reason: ExitReason,
) -> None:
    game = Game()
    game.report(0, 0.1)
    assert game.report(1, 0.9) == ["stop 1", "create 4"]
    before = game.rung(0)
    assert game.early(1, reason) == []
    assert game.exit(1) == []
    assert game.rung(0) == before
    assert game.asha().invalid == 0


def test_a_trial_that_ends_by_itself_has_a_successor() -> None:
    game = Game(max_trials=6, max_concurrent_trials=2)
    assert game.exit(0) == ["create 2"]
    game.report(1, 0.5)
    assert game.exit(1) == ["create 3"]
    assert game.exit(1) == []
    for trial in (2, 3):
        assert game.exit(trial) == [f"create {trial + 2}"]
    assert game.exit(4) == []
    assert game.exit(5) == ["shutdown cancel=False failure=False"]
    assert game.search.is_over(game.state)
    assert game.exit(5) == []


@pytest.mark.parametrize(
    ("reasons", "end"),
    [
        ([ExitReason.ERRORED] * 3, "shutdown cancel=False failure=True"),
        ([ExitReason.USER_CANCELED] * 3, "shutdown cancel=True failure=False"),
        (
            [ExitReason.ERRORED, ExitReason.USER_CANCELED, ExitReason.ERRORED],
            "shutdown cancel=False failure=False",
        ),
        ([ExitReason.ERRORED, None, ExitReason.ERRORED], "shutdown cancel=False failure=False"),
        ([ExitReason.USER_REQUESTED_STOP] * 3, "shutdown cancel=False failure=False"),
    ],
)
def test_a_search_fails_only_if_every_trial_did(reasons: list[ExitReason | None], end: str) -> None:
    game = Game(max_trials=3)
    for trial, reason in enumerate(reasons):
        if reason is not None:
            game.early(trial, reason)
        last = game.exit(trial)
    assert last == [end]


def test_progress_counts_entries_then_exits() -> None:
    game = Game(max_trials=3)
    seen = [game.search.progress(game.state)]
    for trial in range(3):
        game.report(trial, 1.0, 900)
        seen.append(game.search.progress(game.state))
    for trial in range(3):
        game.exit(trial)
        seen.append(game.search.progress(game.state))
    each = 1 / 3.5999999999999996
    assert seen == pytest.approx([0, each, 2 * each, 3 * each, 3 * each, 3 * each, 1])


def test_the_whole_search_of_another_trial_is_not_ours() -> None:
    game = Game()
    with pytest.raises(NotFound, match="trial 'nobody' not found"):
        game.take(TrialExited("nobody"))


def test_brackets_keep_to_themselves() -> None:
    game = Game(
        name="adaptive_asha", max_time=1024, divisor=4, max_trials=100, max_concurrent_trials=16
    )
    assert len(game.begun) == 16
    views = describe_rungs(game.state)
    assert [(v.bracket, v.rung, v.units) for v in views] == [
        (0, 0, 16),
        (0, 1, 64),
        (0, 2, 256),
        (0, 3, 1024),
        (1, 0, 64),
        (1, 1, 256),
        (1, 2, 1024),
        (2, 0, 256),
        (2, 1, 1024),
    ]
    assert game.report(0, 0.1, 16) == []
    assert game.report(6, 0.9, 64) == []
    assert game.report(5, 0.2, 16) == ["stop 5", "create 16"]
    assert game.report(16, 0.3, 16) == ["stop 16", "create 17"]
    assert game.report(7, 0.95, 64) == ["stop 7", "create 18"]
    entries = {(v.bracket, v.rung): len(v.entries) for v in describe_rungs(game.state) if v.entries}
    assert entries == {(0, 0): 3, (1, 0): 2}
    assert game.search.progress(game.state) == pytest.approx((3 / 84 + 2 / 26.4) / 3)
    assert describe_rungs(game.state)[4].entries[0] == RungEntryView(
        request_id=game.ids[6], metric=0.9, promoted=True
    )


def test_methods_without_rungs_have_none_to_show() -> None:
    search = Search.from_config({"name": "single", "metric": "loss"}, {}, 0)
    assert describe_rungs(search.start()) == []


def test_one_halving_search_is_one_bracket() -> None:
    method = Game().search.method
    assert isinstance(method, Asha)
    assert method.units == (100, 300, 900)


@given(
    smaller=st.booleans(),
    divisor=st.sampled_from([1.5, 2, 3, 4]),
    losses=st.lists(st.sampled_from([-2, -1, 0, 1, 2, math.nan]), min_size=1, max_size=15),
)
def test_screens_say_what_a_trial_has_to_reach(
    smaller: bool, divisor: float, losses: list[float]
) -> None:
    game = Game(smaller_is_better=smaller, divisor=divisor, max_concurrent_trials=20)
    for loss in losses:
        rung = describe_rungs(game.state)[0]
        trial = game.ids.index(rung.training[0])
        said = metric_to_go_on(rung, divisor)
        if said is None:
            goes_on = True
        elif math.isnan(loss):
            goes_on = False
        else:
            goes_on = loss <= said if smaller else loss >= said
        went_on = game.report(trial, loss, rung.units) == []
        assert went_on == goes_on
        above = describe_rungs(game.state)[1].training
        assert (game.ids[trial] in above) == went_on


def test_screens_show_who_is_on_the_way_to_a_rung() -> None:
    game = Game()
    game.report(0, 0.5)
    game.report(1, 0.6)
    game.exit(2)
    training = [[game.ids.index(id_) for id_ in r.training] for r in describe_rungs(game.state)]
    assert training == [[3, 4, 5], [0], []]
