"""What machines and GPUs of a trial did, reduced to as many points as a chart shows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from master.experiments.reports.metrics import PostedMetrics
from master.experiments.reports.profiler_series import Series, readings

GPU_USE = "gpu_util"
"""Per cent of the time in which a GPU computed something."""
IDLE_PERCENT = 5.0
"""A GPU that is used less is called idle."""
IDLE_WINDOW = timedelta(minutes=10)
"""Up to the newest reading: what was before, such as loading the data, does not count."""


@dataclass(slots=True)
class Bucket:
    """Readings of one stretch of time."""

    count: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.most = max(self.most, value)

    @property
    def mean(self) -> float:
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class IdleGpu:
    agent: str
    gpu: str
    percent: float
    """Its mean use."""


@dataclass(slots=True)
class Profile:
    """Between `since` and `until`, both known before."""

    since: datetime
    until: datetime
    points: int
    """Of each series at most."""
    series: dict[Series, dict[int, Bucket]] = field(default_factory=dict)
    """Buckets by their number; those without a reading are left out."""
    _used: dict[Series, Bucket] = field(default_factory=dict)
    """Of GPUs, at the end."""

    @property
    def step(self) -> timedelta:
        return max(self.until - self.since, timedelta(seconds=1)) / self.points

    def add(self, reports: Iterable[PostedMetrics]) -> None:
        step, late = self.step, self.until - IDLE_WINDOW
        for report in reports:
            if not self.since <= report.at <= self.until:
                continue
            at = min(self.points - 1, int((report.at - self.since) / step))
            for one, value in readings(report.group, report.avg):
                if not math.isfinite(value):
                    continue
                self.series.setdefault(one, {}).setdefault(at, Bucket()).add(value)
                if one.name == GPU_USE and report.at >= late:
                    self._used.setdefault(one, Bucket()).add(value)

    def middle(self, bucket: int) -> datetime:
        return self.since + (bucket + 0.5) * self.step

    def idle_gpus(self) -> list[IdleGpu]:
        return [
            IdleGpu(one.agent, one.gpu, used.mean)
            for one, used in sorted(self._used.items())
            if used.mean < IDLE_PERCENT
        ]


def whole(buckets: Mapping[int, Bucket]) -> Bucket:
    """All of a series."""
    return Bucket(
        count=sum(one.count for one in buckets.values()),
        total=sum(one.total for one in buckets.values()),
        least=min(one.least for one in buckets.values()),
        most=max(one.most for one in buckets.values()),
    )
