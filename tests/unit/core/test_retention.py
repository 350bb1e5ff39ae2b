"""Which checkpoints are kept, against an oracle that counts who is better instead of sorting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.retention import KeepCounts, StoredCheckpoint, kept
from tests.fakes.retention_oracle import METRICS, oracle
from windlass.base.errors import InvalidArgument


@st.composite
def candidates(draw: st.DrawFn) -> list[StoredCheckpoint]:
    """Few trials, steps and values: ties are the rule."""
    count = draw(st.integers(0, 14))
    return [
        StoredCheckpoint(
            uuid=f"u{number}",
            trial_id=draw(st.integers(1, 3)),
            steps=draw(st.integers(0, 4)),
            metric=draw(METRICS),
            validation_id=draw(st.integers(1, 4)),
            reported=float(draw(st.integers(0, 2))),
        )
        for number in range(count)
    ]


@given(
    found=candidates(),
    best=st.integers(0, 4),
    trial_best=st.integers(0, 3),
    latest=st.integers(0, 3),
    smaller=st.booleans(),
    pinned=st.sets(st.sampled_from([f"u{n}" for n in range(14)]), max_size=3),
)
def test_the_kept_ones_are_the_oracles(
    found: list[StoredCheckpoint],
    best: int,
    trial_best: int,
    latest: int,
    smaller: bool,
    pinned: set[str],
) -> None:
    counts = KeepCounts(experiment_best=best, trial_best=trial_best, trial_latest=latest)
    keep = kept(found, counts, smaller_is_better=smaller, pinned=pinned)
    assert keep == oracle(found, counts, smaller, pinned)


@given(found=candidates(), smaller=st.booleans())
def test_the_order_of_the_list_does_not_matter(
    found: list[StoredCheckpoint], smaller: bool
) -> None:
    counts = KeepCounts(experiment_best=1)
    forwards = kept(found, counts, smaller_is_better=smaller)
    assert forwards == kept(found[::-1], counts, smaller_is_better=smaller)


def test_nan_is_no_metric_and_a_tie_goes_to_the_first_validation() -> None:
    found = [
        StoredCheckpoint(uuid="nan", trial_id=1, steps=1, metric=math.nan, validation_id=1),
        StoredCheckpoint(uuid="second", trial_id=1, steps=2, metric=0.5, validation_id=3),
        StoredCheckpoint(uuid="first", trial_id=1, steps=3, metric=0.5, validation_id=2),
        StoredCheckpoint(uuid="last", trial_id=1, steps=4),
    ]
    assert kept(found, KeepCounts(), smaller_is_better=True) == {"first", "last"}


def test_keeping_nothing_keeps_what_is_pinned() -> None:
    found = [StoredCheckpoint(uuid=u, trial_id=1, steps=1) for u in ("a", "b")]
    nothing = KeepCounts(experiment_best=0, trial_best=0, trial_latest=0)
    assert kept(found, nothing, smaller_is_better=True, pinned={"b", "elsewhere"}) == {"b"}


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="save_trial_best: must be 0 or more, but is -1"):
        KeepCounts(trial_best=-1)
