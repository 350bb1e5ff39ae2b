"""Rungs, brackets, quotas and concurrency, by table and against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.searcher.adaptive import Tournament
from master.core.searcher.asha import Asha, rung_units
from master.core.searcher.brackets import (
    Mode,
    bracket_concurrency,
    bracket_rungs,
    bracket_trials,
    rung_count,
    whole_powers,
)
from master.core.searcher.search import Search
from windlass.base.errors import InvalidConfig


@pytest.mark.parametrize(
    ("max_time", "divisor", "rungs", "units"),
    [
        (900, 3, 3, (100, 300, 900)),
        (1024, 4, 4, (16, 64, 256, 1024)),
        (10, 4, 4, (1, 1, 2, 10)),
        (1, 4, 3, (1, 1, 1)),
        (100, 1.5, 3, (44, 66, 100)),
        (7, 1e300, 3, (1, 1, 7)),
    ],
)
def test_rung_units(max_time: int, divisor: float, rungs: int, units: tuple[int, ...]) -> None:
    assert rung_units(max_time, divisor, rungs) == units


@pytest.mark.parametrize(
    ("value", "base", "powers"),
    [
        (1, 4, 0),
        (3, 4, 0),
        (4, 4, 1),
        (100, 4, 3),
        (243, 3, 5),
        (59049, 3, 10),
        (1594323, 3, 13),
        (59049, 9, 5),
        (1000, 10, 3),
        (999, 10, 2),
        (1000000, 10, 6),
        (10, 1.5, 5),
    ],
)
def test_powers_are_counted_exactly(value: int, base: float, powers: int) -> None:
    assert whole_powers(value, base, 100) == powers


@given(
    value=st.integers(1, 10**15),
    base=st.one_of(st.integers(2, 40).map(float), st.floats(1.01, 50)),
    limit=st.integers(0, 100),
)
def test_powers_are_the_largest_that_fit(value: int, base: float, limit: int) -> None:
    k = whole_powers(value, base, limit)
    assert 0 <= k <= limit
    assert Fraction(base) ** k <= value
    assert k == limit or Fraction(base) ** (k + 1) > value


def test_rungs_are_limited_by_each_of_time_trials_and_setting() -> None:
    assert rung_count(5, 1024, 100, 4) == 4
    assert rung_count(5, 3, 1000, 4) == 1
    assert rung_count(2, 10**6, 10**6, 4) == 2
    assert rung_count(1, 10**6, 10**6, 4) == 1


@pytest.mark.parametrize(
    ("mode", "rungs", "brackets"),
    [
        (Mode.AGGRESSIVE, 4, (4,)),
        (Mode.STANDARD, 4, (4, 3, 2)),
        (Mode.STANDARD, 5, (5, 4, 3)),
        (Mode.STANDARD, 1, (1,)),
        (Mode.CONSERVATIVE, 4, (4, 3, 2, 1)),
    ],
)
def test_brackets_of_each_mode(mode: Mode, rungs: int, brackets: tuple[int, ...]) -> None:
    assert bracket_rungs(mode, rungs) == brackets


@pytest.mark.parametrize(
    ("rungs", "divisor", "max_trials", "trials"),
    [
        ([4, 3, 2], 4, 100, [70, 22, 8]),
        ([4], 4, 100, [100]),
        ([4, 3, 2, 1], 4, 3, [1, 1, 1, 1]),
        ([2, 2], 4, 5, [3, 2]),
    ],
)
def test_trials_of_brackets(
    rungs: list[int], divisor: float, max_trials: int, trials: list[int]
) -> None:
    assert bracket_trials(rungs, divisor, max_trials) == trials


@pytest.mark.parametrize(
    ("trials", "max_concurrent", "concurrency"),
    [
        ([70, 22, 8], 16, [6, 5, 5]),
        ([70, 22, 8], 1, [1, 1, 1]),
        ([70, 22, 8], 0, [8, 8, 8]),
        ([70, 22, 2], 0, [4, 4, 4]),
    ],
)
def test_concurrency_of_brackets(
    trials: list[int], max_concurrent: int, concurrency: list[int]
) -> None:
    assert bracket_concurrency(trials, 4, max_concurrent) == concurrency


@given(
    rungs=st.lists(st.integers(1, 8), min_size=1, max_size=6),
    divisor=st.floats(1.1, 10),
    max_trials=st.integers(1, 2000),
)
def test_no_bracket_is_empty_and_no_trial_is_lost(
    rungs: list[int], divisor: float, max_trials: int
) -> None:
    trials = bracket_trials(sorted(rungs, reverse=True), divisor, max_trials)
    assert all(t >= 1 for t in trials)
    assert max_trials <= sum(trials) <= max_trials + len(rungs) - 1


def adaptive(**settings: Any) -> dict[str, Any]:
    return {
        "name": "adaptive_asha",
        "metric": "loss",
        "max_trials": 100,
        "max_time": 1024,
        "time_metric": "batches",
        **settings,
    }


def brackets_of(searcher: dict[str, Any]) -> tuple[Asha, ...]:
    method = Search.from_config(searcher, {}, 0).method
    assert isinstance(method, Tournament)
    return method.brackets


def test_an_adaptive_search_with_defaults() -> None:
    first, second, third = brackets_of(adaptive())
    assert first.units == (16, 64, 256, 1024)
    assert second.units == (64, 256, 1024)
    assert third.units == (256, 1024)
    assert [b.max_trials for b in (first, second, third)] == [70, 22, 8]
    assert [b.first_trials for b in (first, second, third)] == [6, 5, 5]


def test_given_bracket_rungs_are_used_as_they_are() -> None:
    brackets = brackets_of(adaptive(bracket_rungs=[2, 7, 2], max_rungs=1, mode="aggressive"))
    assert [len(b.units) for b in brackets] == [7, 2, 2]


def test_an_older_length_stands_in_for_time() -> None:
    searcher = adaptive(max_time=None, time_metric=None, max_length={"epochs": 64})
    assert brackets_of(searcher)[0].units[-1] == 64
    assert brackets_of(searcher)[0].time_metric == "epochs"


@pytest.mark.parametrize(
    ("searcher", "problem"),
    [
        (adaptive(max_time=0), "<config>.searcher.max_time: "),
        (adaptive(bracket_rungs=[3, 0]), "<config>.searcher.bracket_rungs[1]: "),
        (adaptive(divisor=1), "<config>.searcher.divisor: "),
        (adaptive(divisor=1.0001, max_rungs=5000), "makes more than 100 rungs"),
        (adaptive(divisor=1e200, bracket_rungs=[3]), "too large for 3 rungs"),
        (adaptive(max_trials=None), "<config>.searcher.max_trials: "),
        (adaptive(time_metric=None), "<config>.searcher.time_metric: "),
        (adaptive(mode="bold"), "<config>.searcher.mode: "),
        ({"name": "random", "max_trials": 10**9, "max_concurrent_trials": 0}, "the limit is 20000"),
        ({"name": "bayesian"}, "<config>.searcher.name: must be one of single, random"),
        ({"name": "pbt"}, "the 'pbt' searcher has been removed"),
        ({"name": ["random"]}, "<config>.searcher.name: must be one of single, random"),
        ({}, "<config>.searcher.name: must be one of single, random"),
        ({"name": "custom"}, "the 'custom' searcher has been removed"),
        ({"name": "sync_halving"}, "is not valid for new experiments"),
    ],
)
def test_what_no_search_could_run_with_is_refused(searcher: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        Search.from_config(searcher, {}, 0)
    assert problem in refused.value.message
