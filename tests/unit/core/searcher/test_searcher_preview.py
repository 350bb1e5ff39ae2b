"""What a search plans to train."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.searcher.preview import PlannedTrials, planned_trials
from master.core.searcher.search import Search

SPACE = {"a": {"type": "int", "minval": 1, "maxval": 3, "count": 3}, "b": [1, 2]}
TIMED = {"metric": "loss", "max_time": 900, "time_metric": "batches", "divisor": 3}
ASHA = {**TIMED, "name": "async_halving", "num_rungs": 3}


def plan(searcher: dict[str, Any]) -> list[PlannedTrials]:
    return list(planned_trials(Search.from_config(searcher, SPACE, seed=0)))


@pytest.mark.parametrize(
    ("searcher", "planned"),
    [
        ({"name": "single"}, [PlannedTrials(1)]),
        ({"name": "random", "max_trials": 7}, [PlannedTrials(7)]),
        ({"name": "grid"}, [PlannedTrials(3)]),
        (
            {**ASHA, "max_trials": 9},
            [
                PlannedTrials(6, 100, "batches"),
                PlannedTrials(2, 300, "batches"),
                PlannedTrials(1, 900, "batches"),
            ],
        ),
        ({**ASHA, "max_trials": 1}, [PlannedTrials(1, 900, "batches")]),
        (
            {**TIMED, "name": "adaptive_asha", "max_trials": 12, "bracket_rungs": [2, 1]},
            # 8 trials with two rungs, of which 2 go on, and 4 with one.
            [PlannedTrials(6, 300, "batches"), PlannedTrials(6, 900, "batches")],
        ),
    ],
)
def test_each_method_says_what_it_plans(
    searcher: dict[str, Any], planned: list[PlannedTrials]
) -> None:
    assert plan(searcher) == planned


@given(
    trials=st.integers(1, 10_000),
    rungs=st.integers(1, 6),
    divisor=st.floats(1.1, 8),
    time=st.integers(1, 1000),
)
def test_every_trial_is_planned_once(trials: int, rungs: int, divisor: float, time: int) -> None:
    settings = {**ASHA, "num_rungs": rungs, "divisor": divisor, "max_time": time}
    rows = plan({**settings, "max_trials": trials})
    assert sum(row.count for row in rows) == trials
    assert all(row.count > 0 for row in rows)
    units = [row.units or 0 for row in rows]
    assert units == sorted(set(units))
    assert units[-1] == time
