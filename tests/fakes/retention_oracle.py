"""Which checkpoints are kept, found by counting who is better instead of by sorting."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from master.core.retention import KeepCounts, StoredCheckpoint

METRICS = st.none() | st.sampled_from([0.0, -0.0, 1.0, 2.5, math.nan, math.inf, -math.inf])
"""Few values: ties are the rule."""


def oracle(
    found: list[StoredCheckpoint], counts: KeepCounts, smaller: bool, pinned: set[str]
) -> set[str]:
    """A checkpoint is kept if fewer than N others come before it."""

    def better(a: StoredCheckpoint, b: StoredCheckpoint) -> bool:
        if a.metric is None or b.metric is None or math.isnan(a.metric):
            return False
        if a.metric == b.metric:
            return (a.validation_id, a.uuid) < (b.validation_id, b.uuid)
        return a.metric < b.metric if smaller else a.metric > b.metric

    def newer(a: StoredCheckpoint, b: StoredCheckpoint) -> bool:
        return (-a.steps, -a.reported, a.uuid) < (-b.steps, -b.reported, b.uuid)

    keep = set(pinned) & {c.uuid for c in found}
    for c in found:
        mine = [o for o in found if o.trial_id == c.trial_id]
        measured = c.metric is not None and not math.isnan(c.metric)
        if sum(newer(o, c) for o in mine) < counts.trial_latest or (
            measured
            and (
                sum(better(o, c) for o in mine) < counts.trial_best
                or sum(better(o, c) for o in found) < counts.experiment_best
            )
        ):
            keep.add(c.uuid)
    return keep
