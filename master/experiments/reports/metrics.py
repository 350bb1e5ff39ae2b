"""One metric report folded into what is known of a trial. Pure.

The contract (reports of one trial, group by group):
- the same report again is nothing new; at the same step, new keys are added and known keys must agree;
- a report of a later run at or below steps that an earlier run reported rolls those reports back ("archived");
- the summary keeps, per group and name, count, last and, for numbers, min, max, sum and mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from master.experiments.lifecycle.state import GroupMetrics, RunSettings, TrialReports
from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.formats.json_types import JsonMapping, JsonObject

TIMING_GROUP, MISC_GROUP = "profiler_timing", "profiler_misc"
"""What older clients measure beside the machine."""
PROFILER_GROUPS = frozenset({"cpu", "gpu", "memory", "disk", "network", TIMING_GROUP, MISC_GROUP})
"""Append-only: no summary, no merge."""
VALIDATION = "validation"
TRAINING = "training"
_NON_FINITE = {"NaN": math.nan, "Nan": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedMetrics:
    """One call of the metrics endpoint. `steps` is None only for profiler groups."""

    trial_id: int
    run_id: int
    group: str
    steps: int | None
    avg: JsonMapping
    batches: tuple[JsonMapping, ...] | None = None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What a report does. Exactly one of: a repeat (nothing), a merge into a row, a new row (with a roll-back)."""

    metrics: TrialReports
    is_repeat: bool = False
    merge_into: int | None = None
    """Row id whose content becomes `row`."""
    row: JsonMapping | None = None
    rolled_back: bool = False
    """Reports of earlier allocations were overtaken: archive them and summarise again from the rows."""


def check(report: PostedMetrics) -> None:
    """Refuse what can never be stored."""
    if not report.group or "." in report.group:
        raise InvalidArgument(f'metric group "{report.group}" must not be empty or contain a dot')
    if report.steps is None and report.group not in PROFILER_GROUPS:
        raise InvalidArgument(f"stepsCompleted is required for metrics of group {report.group}")
    if report.steps is not None and report.steps < 0:
        raise InvalidArgument(f"stepsCompleted must not be negative, but is {report.steps}")
    for name in ("epoch", "epochs"):
        if name in report.avg and number(report.avg[name]) is None:
            raise InvalidArgument(f"metric {name} must be a number, not {report.avg[name]!r}")


def fold(
    metrics: TrialReports, report: PostedMetrics, settings: RunSettings, row_id: int
) -> Folded:
    """Fold a checked report. Raises Conflict when it contradicts an earlier one at the same step."""
    steps = report.steps
    if report.group in PROFILER_GROUPS or steps is None:
        return Folded(metrics=metrics, row=row_document(report))
    known = metrics.groups.get(report.group)
    fresh: JsonMapping = report.avg
    merge_into = None
    if known is not None and known.run_id == report.run_id and known.max_steps == steps:
        merged = _merge(known, report)
        if merged is None:
            return Folded(metrics=metrics, is_repeat=True)
        fresh = {k: v for k, v in report.avg.items() if k not in known.last_avg}
        report = replace(report, avg=merged)
        merge_into = row_id = known.last_id
    folded = replace(
        metrics,
        groups=_with_newest(metrics.groups, report, steps, row_id),
        steps_completed=max(metrics.steps_completed, steps),
        summary=_summarise(metrics.summary, report.group, fresh),
    )
    if report.group == VALIDATION:
        folded = _validation(folded, report, settings, row_id)
    return Folded(
        metrics=folded,
        merge_into=merge_into,
        row=row_document(report),
        rolled_back=_overtakes(metrics.groups, report, steps),
    )


def _overtakes(groups: Mapping[str, GroupMetrics], report: PostedMetrics, steps: int) -> bool:
    """Whether an earlier allocation reported at or beyond this report."""
    return any(
        g.run_id < report.run_id
        and (g.max_steps >= steps if name == report.group else g.max_steps > steps)
        for name, g in groups.items()
    )


def _with_newest(
    groups: Mapping[str, GroupMetrics], report: PostedMetrics, steps: int, row_id: int
) -> Mapping[str, GroupMetrics]:
    known = groups.get(report.group)
    if known is not None and report.run_id == known.run_id and steps < known.max_steps:
        return groups
    newest = GroupMetrics(
        run_id=report.run_id,
        max_steps=steps,
        last_id=row_id,
        last_avg=dict(report.avg),
        last_has_batches=report.batches is not None,
    )
    return {**groups, report.group: newest}


def rebuild(rows: list[tuple[int, PostedMetrics]], settings: RunSettings) -> TrialReports:
    """The metrics of a trial from its live rows, oldest first."""
    metrics = TrialReports()
    for row_id, report in rows:
        metrics = fold(metrics, report, settings, row_id).metrics
    return metrics


def row_document(report: PostedMetrics) -> JsonObject:
    return {
        "avg_metrics": dict(report.avg),
        "batch_metrics": None if report.batches is None else [dict(b) for b in report.batches],
    }


def number(value: Any) -> float | None:
    """A metric as a number: JSON numbers, and the strings that stand for what JSON cannot say."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return _NON_FINITE.get(value) if isinstance(value, str) else None


def _merge(known: GroupMetrics, report: PostedMetrics) -> JsonObject | None:
    """The union of two reports at one step; None if the second says nothing new."""
    if known.last_has_batches and report.batches is not None and known.last_avg != report.avg:
        raise Conflict(
            f"batch metrics of group {report.group} at step {report.steps} were reported already"
        )
    for name, value in report.avg.items():
        if name in known.last_avg and not _same(known.last_avg[name], value):
            raise Conflict(
                f"metric {name} of group {report.group} at step {report.steps} was reported as "
                f"{known.last_avg[name]!r} before, and as {value!r} now"
            )
    union = {**known.last_avg, **report.avg}
    adds_batches = report.batches is not None and not known.last_has_batches
    return union if adds_batches or len(union) > len(known.last_avg) else None


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (a != a and b != b)


def _validation(
    metrics: TrialReports, report: PostedMetrics, settings: RunSettings, row_id: int
) -> TrialReports:
    value = number(report.avg.get(settings.metric))
    if value is None:
        return metrics
    metrics = replace(metrics, latest_validation_id=row_id, latest_validation=value)
    if math.isfinite(value) and (
        metrics.best is None or is_better(value, metrics.best, settings.smaller_is_better)
    ):
        metrics = replace(metrics, best_validation_id=row_id, best=value)
    return metrics


def is_better(a: float, b: float, smaller_is_better: bool) -> bool:
    return a < b if smaller_is_better else a > b


_SUMMARY_KEYS = {TRAINING: "avg_metrics", VALIDATION: "validation_metrics"}
_GROUPS = {key: group for group, key in _SUMMARY_KEYS.items()}


def summary_key(group: str) -> str:
    """The name of a group inside `summaryMetrics`."""
    return _SUMMARY_KEYS.get(group, group)


def group_of(key: str) -> str:
    """The group with this name inside `summaryMetrics`."""
    return _GROUPS.get(key, key)


def _summarise(summary: JsonMapping, group_name: str, values: JsonMapping) -> JsonObject:
    key = summary_key(group_name)
    group = dict(summary.get(key, {}))
    for name, value in values.items():
        group[name] = _add(group.get(name), value)
    return {**summary, key: group}


def _add(old: JsonMapping | None, value: Any) -> JsonObject:
    kind = _type_of(value)
    if old is not None and old["type"] != kind:
        kind = "string"
    count = (old["count"] if old else 0) + 1
    x = number(value)
    if kind != "number" or x is None:
        return {"type": kind, "count": count, "last": value}
    if not math.isfinite(x):
        # Statistics over a diverged value say nothing; the value itself is kept as it was sent.
        return {**(old or {}), "type": kind, "count": count, "last": value}
    total = (old.get("sum", 0.0) if old else 0.0) + x
    return {
        "type": kind,
        "count": count,
        "last": value,
        "sum": total,
        "mean": total / count,
        "min": min(x, old["min"]) if old and "min" in old else x,
        "max": max(x, old["max"]) if old and "max" in old else x,
    }


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if number(value) is not None:
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"
