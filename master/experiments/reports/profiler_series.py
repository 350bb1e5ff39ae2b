"""Reports of the profiler groups as the series of older clients: of a metric on an agent, or on one GPU. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from master.experiments.reports.metrics import (
    MISC_GROUP,
    TIMING_GROUP,
    PostedMetrics,
    number,
)
from windlass.base.formats.json_types import JsonMapping

SYSTEM, TIMING, MISC = "SYSTEM", "TIMING", "MISC"
KINDS = (SYSTEM, TIMING, MISC)
_GROUPS = {"cpu": "cpu", "gpu": "gpu", "disk": "disk", "net": "network", "memory": "memory"}
"""By the first word of a system metric's name."""
_GPU = "gpu"
_OLD_NAMES = {"free_memory": "memory"}


@dataclass(frozen=True, slots=True, order=True)
class Series:
    name: str
    kind: str
    """One of `KINDS`."""
    agent: str = ""
    gpu: str = ""
    """UUID."""


@dataclass(frozen=True, slots=True)
class Reading:
    value: float | str
    """A word for what is no finite number."""
    steps: int | None
    at: datetime


def posted(series: Series, reading: Reading, trial_id: int, run_id: int) -> PostedMetrics:
    """The report that such a reading is."""
    measured: JsonMapping = {series.name: reading.value}
    return PostedMetrics(
        trial_id=trial_id,
        run_id=run_id,
        group=_group(series),
        steps=reading.steps,
        avg={series.agent: {series.gpu: measured} if series.gpu else measured},
        at=reading.at,
    )


def readings(group: str, averages: JsonMapping) -> Iterator[tuple[Series, float]]:
    """What one report says of each series. What is no number is left out."""
    kind = {TIMING_GROUP: TIMING, MISC_GROUP: MISC}.get(group, SYSTEM)
    for agent, measured in averages.items():
        if not isinstance(measured, dict):
            if (value := number(measured)) is not None:
                yield Series(agent, kind), value
            continue
        for name, inner in measured.items():
            if isinstance(inner, dict):
                yield from _nested(group, kind, agent, name, inner)
            elif (value := number(inner)) is not None:
                yield Series(name, kind, agent), value


def _nested(
    group: str, kind: str, agent: str, part: str, measured: JsonMapping
) -> Iterator[tuple[Series, float]]:
    """Of a GPU, or a mount point, which is said in the name."""
    for name, inner in measured.items():
        if (value := number(inner)) is None:
            continue
        if group == _GPU or kind != SYSTEM:
            yield Series(name, kind, agent, part), value
        else:
            yield Series(f"{name} {part}", kind, agent), value


def by_series(
    rows: Sequence[PostedMetrics],
) -> dict[Series, list[Reading]]:
    found: dict[Series, list[Reading]] = {}
    for row in rows:
        for series, value in readings(row.group, row.avg):
            found.setdefault(series, []).append(Reading(value, row.steps, row.at))
    return found


def _group(series: Series) -> str:
    if series.kind == TIMING:
        return TIMING_GROUP
    known = _OLD_NAMES.get(series.name) or _GROUPS.get(series.name.partition("_")[0])
    return MISC_GROUP if series.kind == MISC or known is None else known
