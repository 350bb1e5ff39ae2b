"""Reports folded into a trial's metrics: repeats, merges, contradictions, roll-backs, summaries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.experiments.lifecycle.state import RunSettings, TrialReports
from master.experiments.reports.metrics import PostedMetrics, check, fold, rebuild
from windlass.base.errors import Conflict, InvalidArgument

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = RunSettings(pool="default", slots_per_trial=1, metric="loss")


def report(
    steps: int | None, group: str = "training", run_id: int = 1, **avg: Any
) -> PostedMetrics:
    return PostedMetrics(trial_id=1, run_id=run_id, group=group, steps=steps, avg=avg, at=NOW)


def folded(*reports: PostedMetrics) -> TrialReports:
    metrics = TrialReports()
    for row_id, each in enumerate(reports, start=1):
        metrics = fold(metrics, each, SETTINGS, row_id).metrics
    return metrics


def test_the_same_report_again_is_nothing_new() -> None:
    metrics = folded(report(1, loss=0.5))
    again = fold(metrics, report(1, loss=0.5), SETTINGS, 2)
    assert again.is_repeat
    assert again.metrics is metrics


def test_new_names_at_the_same_step_are_merged_into_the_row() -> None:
    again = fold(folded(report(1, loss=0.5)), report(1, loss=0.5, lr=0.1), SETTINGS, 2)
    assert again.merge_into == 1
    assert again.row == {"avg_metrics": {"loss": 0.5, "lr": 0.1}, "batch_metrics": None}
    assert again.metrics.summary["avg_metrics"]["loss"]["count"] == 1
    assert again.metrics.summary["avg_metrics"]["lr"]["count"] == 1


def test_a_contradiction_is_refused() -> None:
    with pytest.raises(Conflict, match=r"reported as 0\.5 before, and as 0\.6 now"):
        fold(folded(report(1, loss=0.5)), report(1, loss=0.6), SETTINGS, 2)


@pytest.mark.parametrize(
    ("group", "steps", "rolls_back"),
    [
        ("training", 4, False),
        ("training", 3, True),
        ("training", 2, True),
        ("validation", 3, False),
        ("validation", 2, True),
    ],
)
def test_a_later_run_rolls_back_what_it_overtakes(group: str, steps: int, rolls_back: bool) -> None:
    metrics = folded(report(1, loss=3), report(2, loss=2), report(3, loss=1))
    later = fold(metrics, report(steps, group=group, run_id=2, loss=0), SETTINGS, 9)
    assert later.rolled_back is rolls_back


def test_best_and_latest_validation_follow_the_searcher_metric() -> None:
    metrics = folded(
        report(1, "validation", loss=0.5),
        report(2, "validation", loss=0.2),
        report(3, "validation", accuracy=1.0),
        report(4, "validation", loss=0.4),
        report(5, "validation", loss="NaN"),
    )
    assert (metrics.best, metrics.best_validation_id) == (0.2, 2)
    assert metrics.latest_validation_id == 5
    assert metrics.steps_completed == 5


def test_profiler_groups_are_only_appended() -> None:
    metrics = folded(report(1, loss=1))
    profiled = fold(metrics, report(None, "gpu", util=3), SETTINGS, 2)
    assert profiled.metrics is metrics
    assert profiled.row is not None


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (report(1, ""), "must not be empty"),
        (report(1, "a.b"), "must not be empty or contain a dot"),
        (report(None), "stepsCompleted is required"),
        (report(-1), "must not be negative"),
        (report(1, epoch="three"), "epoch must be a number"),
    ],
)
def test_what_can_never_be_stored(bad: PostedMetrics, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        check(bad)


def test_types_that_disagree_become_string() -> None:
    metrics = folded(report(1, x=1), report(2, x="one"))
    assert metrics.summary["avg_metrics"]["x"] == {"type": "string", "count": 2, "last": "one"}


values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@given(values)
def test_summary_agrees_with_plain_arithmetic(xs: list[float]) -> None:
    metrics = folded(*(report(i, loss=x) for i, x in enumerate(xs)))
    summary = metrics.summary["avg_metrics"]["loss"]
    assert summary["count"] == len(xs)
    assert (summary["min"], summary["max"], summary["last"]) == (min(xs), max(xs), xs[-1])
    assert summary["sum"] == pytest.approx(sum(xs), abs=1e-6)
    assert summary["mean"] == pytest.approx(sum(xs) / len(xs), abs=1e-6)


@given(values)
def test_rebuilding_from_rows_gives_the_same(xs: list[float]) -> None:
    reports = [report(i, "validation", loss=x) for i, x in enumerate(xs)]
    assert rebuild(list(enumerate(reports, start=1)), SETTINGS) == folded(*reports)
