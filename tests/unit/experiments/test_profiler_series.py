"""Series of older clients, and the reports that stand for them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.experiments.reports.metrics import PROFILER_GROUPS, check
from master.experiments.reports.profiler_series import (
    KINDS,
    MISC,
    SYSTEM,
    TIMING,
    Reading,
    Series,
    by_series,
    posted,
    readings,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
words = st.sampled_from(
    ["cpu_util_simple", "gpu_util", "free_memory", "net_sent", "x", "disk_iops"]
)
series = st.builds(
    Series,
    words,
    st.sampled_from(KINDS),
    st.sampled_from(["", "node"]),
    st.sampled_from(["", "GPU-1"]),
)


@given(of=series, value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_reading_comes_back_as_it_was_posted(of: Series, value: float) -> None:
    report = posted(of, Reading(value, 3, NOW), 1, 2)
    check(report)
    assert report.group in PROFILER_GROUPS
    found = by_series([report])
    assert list(found.values()) == [[Reading(value, 3, NOW)]]
    (read,) = found
    assert (read.name.partition(" ")[0], read.agent) == (of.name, of.agent)
    assert read.kind == of.kind or (of.kind, read.kind) == (SYSTEM, MISC)


@pytest.mark.parametrize(
    ("group", "averages", "expected"),
    [
        ("cpu", {"node": {"cpu_util_simple": 7}}, [(Series("cpu_util_simple", SYSTEM, "node"), 7)]),
        ("gpu", {"n": {"GPU-1": {"gpu_util": 5}}}, [(Series("gpu_util", SYSTEM, "n", "GPU-1"), 5)]),
        ("disk", {"n": {"/": {"disk_util": 9}}}, [(Series("disk_util /", SYSTEM, "n"), 9)]),
        (
            "memory",
            {"free": 3, "words": "no", "n": {"deep": {"deeper": {}}}},
            [(Series("free", SYSTEM), 3)],
        ),
        ("profiler_timing", {"n": {"load": 1.5}}, [(Series("load", TIMING, "n"), 1.5)]),
    ],
)
def test_the_groups_of_today_are_series(
    group: str, averages: dict[str, object], expected: list[tuple[Series, float]]
) -> None:
    assert list(readings(group, averages)) == expected
