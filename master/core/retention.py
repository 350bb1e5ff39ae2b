"""Which checkpoints of an experiment are kept: a pure rule over its keep counts.

A checkpoint is kept if it is among the best of its experiment or of its trial, by the searcher's metric of the
validation at the same step; if it is among the newest of its trial; or if something needs it (`pinned`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from windlass.base.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepCounts:
    """The `save_*` keys of `checkpoint_storage`."""

    experiment_best: int = 0
    trial_best: int = 1
    trial_latest: int = 1

    def __post_init__(self) -> None:
        for name in ("experiment_best", "trial_best", "trial_latest"):
            if (count := getattr(self, name)) < 0:
                raise InvalidArgument(f"save_{name}: must be 0 or more, but is {count}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """One stored checkpoint."""

    uuid: str
    trial_id: int
    steps: int
    metric: float | None = None
    """The searcher's metric at its step. None or NaN: it has none, and is no best one."""
    validation_id: int = 0
    """Grows with time: of two equal metrics the one that was stored first is better."""
    reported: float = 0.0
    """When. Of two at the same step the later one is newer."""


def kept(
    candidates: Iterable[StoredCheckpoint],
    counts: KeepCounts,
    *,
    smaller_is_better: bool,
    pinned: Collection[str] = (),
) -> frozenset[str]:
    """The uuids to keep; every other candidate may be deleted."""
    trials: dict[int, list[StoredCheckpoint]] = defaultdict(list)
    for candidate in candidates:
        trials[candidate.trial_id].append(candidate)
    keep: set[str] = set()
    measured: list[StoredCheckpoint] = []
    for trial in trials.values():
        keep.update(c.uuid for c in trial if c.uuid in pinned)
        newest = sorted(trial, key=lambda c: (-c.steps, -c.reported, c.uuid))
        keep.update(c.uuid for c in newest[: counts.trial_latest])
        best = _best_first(trial, smaller_is_better)
        keep.update(c.uuid for c in best[: counts.trial_best])
        measured += best
    best = _best_first(measured, smaller_is_better)
    keep.update(c.uuid for c in best[: counts.experiment_best])
    return frozenset(keep)


def _best_first(
    candidates: Iterable[StoredCheckpoint], smaller_is_better: bool
) -> list[StoredCheckpoint]:
    """Those that have the metric."""
    sign = 1.0 if smaller_is_better else -1.0
    ranked = [
        (sign * c.metric, c.validation_id, c.uuid, c)
        for c in candidates
        if c.metric is not None and not math.isnan(c.metric)
    ]
    return [candidate for *_, candidate in sorted(ranked, key=lambda entry: entry[:3])]
