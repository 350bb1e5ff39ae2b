"""Reports of profilers, reduced to the points of a chart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from master.experiments.reports.metrics import PostedMetrics
from master.experiments.reports.profile import IDLE_WINDOW, Profile, whole
from master.experiments.reports.profiler_series import Series

START = datetime(2026, 1, 1, tzinfo=UTC)


def report(at: datetime, group: str = "cpu", **measured: Any) -> PostedMetrics:
    return PostedMetrics(
        trial_id=1, run_id=1, group=group, steps=None, avg={"node-1": measured}, at=at
    )


@given(
    st.lists(st.tuples(st.integers(0, 3600), st.floats(-1e9, 1e9)), min_size=1, max_size=60),
    st.integers(2, 20),
)
def test_each_reading_is_in_one_point_of_its_time(
    read: list[tuple[int, float]], points: int
) -> None:
    times = [START + timedelta(seconds=second) for second, _ in read]
    found = Profile(min(times), max(times), points)
    found.add([report(at, cpu_util_simple=v) for at, (_, v) in zip(times, read, strict=True)])
    buckets = found.series[Series("cpu_util_simple", "SYSTEM", "node-1")]
    assert len(buckets) <= points
    assert all(
        found.since <= found.middle(at) <= found.since + points * found.step for at in buckets
    )
    values = [value for _, value in read]
    all_ = whole(buckets)
    assert (all_.count, all_.least, all_.most) == (len(values), min(values), max(values))
    assert all(one.least - 1e-3 <= one.mean <= one.most + 1e-3 for one in buckets.values())


def test_what_is_no_number_is_left_out() -> None:
    found = Profile(START, START + timedelta(hours=1), 10)
    found.add([report(START, cpu_util_simple=float("nan"), other="NaN", third=1.0)])
    assert [one.name for one in found.series] == ["third"]


def test_gpus_that_do_nothing_at_the_end_are_idle() -> None:
    end = START + timedelta(hours=1)
    early = end - IDLE_WINDOW - timedelta(minutes=1)
    found = Profile(START, end, 10)
    found.add(
        [
            report(early, "gpu", a={"gpu_util": 0.0}, b={"gpu_util": 90.0}, c={"gpu_util": 0.0}),
            report(end, "gpu", a={"gpu_util": 80.0}, b={"gpu_util": 1.0}, c={"gpu_util": 0.0}),
        ]
    )
    assert [(one.gpu, one.percent) for one in found.idle_gpus()] == [("b", 1.0), ("c", 0.0)]
