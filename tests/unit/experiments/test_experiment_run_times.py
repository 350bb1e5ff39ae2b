"""What is learned of run times: typical durations, and the pace of a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.allocations.machine import AllocationState
from master.core.searcher.types import ExitReason
from master.experiments.lifecycle.run_times import (
    NEWEST_RUNS,
    ProgressPace,
    differs,
    expected_end,
    newest_run_s,
    paced,
    typical_s,
)
from master.experiments.lifecycle.state import Phase, TrialState

START = datetime(2026, 1, 1, tzinfo=UTC)


def trial(number: int, seconds: float | None, phase: Phase = Phase.COMPLETED) -> TrialState:
    """One whose last run took that long and ended `number` hours after the start; None: it never ran."""
    ended = START + timedelta(hours=number)
    run = AllocationState(
        id=f"1.{number}.1",
        task_id=f"1.{number}",
        run_id=1,
        pool="default",
        slots=1,
        requested_at=START,
        started_at=None if seconds is None else ended - timedelta(seconds=seconds),
        ended_at=ended if phase.is_terminal else None,
    )
    return TrialState(
        id=number,
        request_id=str(number),
        task_id=run.task_id,
        hparams={},
        seed=0,
        created_at=START,
        phase=phase,
        allocation=run,
    )


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([], None),
        ([trial(1, 60)], 60),
        ([trial(1, 60), trial(2, 100)], 80),
        ([trial(1, 60), trial(2, 70), trial(3, 9000)], 70),
        ([trial(1, 60), trial(2, None)], 60),
        ([trial(1, 60, Phase.ACTIVE)], None),
        ([trial(1, 60, Phase.ERROR), trial(2, 60, Phase.CANCELED)], None),
        ([trial(1, 60), trial(2, 5, Phase.ERROR)], 60),
        ([trial(1, 60), replace(trial(2, 5), early_exit=ExitReason.INVALID_HP)], 60),
    ],
)
def test_the_typical_run_is_the_median_of_those_that_finished_their_trial(
    trials: list[TrialState], expected: float | None
) -> None:
    assert typical_s(newest_run_s(trials)) == expected


def test_old_runs_are_forgotten() -> None:
    old = [trial(number, 10) for number in range(NEWEST_RUNS)]
    new = [trial(NEWEST_RUNS + number, 1000) for number in range(NEWEST_RUNS)]
    assert typical_s(newest_run_s(old + new)) == 1000
    assert typical_s(newest_run_s(new + old)) == 1000


@pytest.mark.parametrize(
    ("told", "learned", "news"),
    [
        (None, None, False),
        (None, 10.0, True),
        (10.0, None, True),
        (100.0, 109.0, False),
        (100.0, 91.0, False),
        (100.0, 111.0, True),
        (100.0, 89.0, True),
        (0.0, 0.0, False),
        (0.0, 1.0, True),
    ],
)
def test_only_what_differs_noticeably_is_news(
    told: float | None, learned: float | None, news: bool
) -> None:
    assert differs(told, learned) is news


def after(*reports: tuple[float, float], run: str = "1.a.1") -> ProgressPace:
    """The pace of one run after reports of (seconds since the start, fraction)."""
    pace: ProgressPace | None = None
    for seconds, fraction in reports:
        pace = paced(pace, run, fraction, START + timedelta(seconds=seconds))
    assert pace is not None
    return pace


@pytest.mark.parametrize(
    ("reports", "end_s"),
    [
        ([(0, 0.0)], None),
        ([(0, 0.0), (10, 0.0)], None),
        ([(0, 0.0), (10, 0.001)], None),
        ([(0, 0.5), (0, 0.6)], None),
        ([(0, 0.0), (10, 0.1)], 100),
        ([(0, 0.0), (10, 0.1), (20, 0.4)], 50),
        ([(0, 0.8), (10, 0.9)], 20),
        ([(0, 0.2), (60, 1.0)], 60),
        ([(0, 0.5), (10, 0.2), (20, 0.4)], 50),
        ([(0, 0.0), (10**7, 0.01)], None),
    ],
)
def test_the_end_follows_from_the_pace_of_this_run(
    reports: list[tuple[float, float]], end_s: float | None
) -> None:
    expected = None if end_s is None else START + timedelta(seconds=end_s)
    assert expected_end(after(*reports)) == expected


def test_a_new_run_begins_anew() -> None:
    pace = paced(after((0, 0.0), (10, 0.5)), "1.a.2", 0.5, START + timedelta(seconds=500))
    assert expected_end(pace) is None
    pace = paced(pace, "1.a.2", 0.75, START + timedelta(seconds=600))
    assert expected_end(pace) == START + timedelta(seconds=700)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1)), min_size=1, max_size=20))
def test_an_end_is_never_before_the_newest_report(reports: list[tuple[float, float]]) -> None:
    pace = after(*sorted(reports, key=lambda report: report[0]))
    end = expected_end(pace)
    assert end is None or end >= pace.newest_at
