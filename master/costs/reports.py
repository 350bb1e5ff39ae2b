"""Recorded costs summed up for people: by pool, user, job and so on; and what an experiment will cost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from master.costs.lines import CostLine, GroupBy
from provisioner.money.lifetimes import NOBODY, CostKind

LEAST_PROGRESS = 0.01
"""With less done, what it cost so far says nothing about the whole."""
OTHERS = "(others)"
"""Stands for what its reader may not see."""
NO_PROJECT = "(no project)"
"""Work that belongs to none: notebooks and the like, and experiments that were deleted."""
HIDDEN = frozenset({GroupBy.USER, GroupBy.PROJECT, GroupBy.EXPERIMENT, GroupBy.JOB})
"""Sums that would tell whose work it was."""


@dataclass(slots=True)
class CostSum:
    """What one pool, user, job, ... cost."""

    name: str
    """Empty: nobody's. Of machines that nobody used."""
    usd: dict[CostKind, float] = field(default_factory=dict)
    hours: float = 0.0
    """Of machines."""
    by_user: dict[str, float] = field(default_factory=dict)
    """USD by user name; empty: nobody's."""

    @property
    def total_usd(self) -> float:
        return sum(self.usd.values())

    def add(self, line: CostLine) -> None:
        self.usd[line.kind] = self.usd.get(line.kind, 0.0) + line.usd
        self.hours += line.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCost:
    usd: float
    usd_per_hour: float
    """Now."""
    forecast_usd: float | None
    """Of the whole experiment; None: it is not known."""
    basis: str
    """What the forecast rests on, or why there is none."""


def summed(
    lines: Iterable[CostLine],
    by: GroupBy,
    *,
    usernames: Mapping[int, str],
    is_visible: Callable[[str], bool],
    projects: Mapping[int, str] | None = None,
    hidden_pools: Collection[str] = (),
) -> list[CostSum]:
    """The dearest first; in time for months and days. `projects`: of experiments."""
    sums: dict[str, CostSum] = {}
    for line in lines:
        is_hidden = bool(line.job_id) and not is_visible(line.job_id)
        name = _name(line, by, usernames, projects or {})
        if (is_hidden and by in HIDDEN) or (by is GroupBy.POOL and line.pool in hidden_pools):
            name = OTHERS
        one = sums.setdefault(name, CostSum(name))
        one.add(line)
        user = OTHERS if is_hidden else _name(line, GroupBy.USER, usernames, {})
        one.by_user[user] = one.by_user.get(user, 0.0) + line.usd
    if by in (GroupBy.MONTH, GroupBy.DAY):
        return sorted(sums.values(), key=lambda each: each.name)
    return sorted(sums.values(), key=lambda each: (-each.total_usd, each.name))


def _name(
    line: CostLine, by: GroupBy, usernames: Mapping[int, str], projects: Mapping[int, str]
) -> str:
    match by:
        case GroupBy.POOL:
            return line.pool
        case GroupBy.USER:
            return "" if line.user_id is None else usernames.get(line.user_id, f"#{line.user_id}")
        case GroupBy.PROJECT:
            return projects.get(line.experiment_id or 0, NO_PROJECT) if line.job_id else ""
        case GroupBy.EXPERIMENT:
            return "" if line.experiment_id is None else str(line.experiment_id)
        case GroupBy.JOB:
            return line.job_id
        case GroupBy.INSTANCE:
            return line.instance_id
        case GroupBy.MONTH:
            return line.month
        case GroupBy.DAY:
            return line.day


def experiment_cost(
    lines: Iterable[CostLine], *, usd_per_hour: float, progress: float, is_over: bool
) -> ExperimentCost:
    """Only what its own slots cost: boots and idle machines are nobody's."""
    usd = sum(line.usd for line in lines if line.job_id != NOBODY)
    forecast, basis = None, f"{progress:.1%} done: too little to tell"
    if is_over:
        forecast, basis = usd, "it is over"
    elif progress >= LEAST_PROGRESS:
        forecast, basis = usd / min(progress, 1.0), f"cost so far and {progress:.1%} done"
    return ExperimentCost(usd=usd, usd_per_hour=usd_per_hour, forecast_usd=forecast, basis=basis)
