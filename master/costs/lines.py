"""Lines of recorded costs, and what they are summed up by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from provisioner.money.lifetimes import Charges, CostKind


class GroupBy(StrEnum):
    """What costs are summed up by."""

    POOL = "pool"
    USER = "user"
    PROJECT = "project"
    EXPERIMENT = "experiment"
    JOB = "job"
    INSTANCE = "instance"
    MONTH = "month"
    DAY = "day"


KEYS: Mapping[GroupBy, tuple[str, ...]] = {
    GroupBy.POOL: ("pool",),
    GroupBy.USER: ("user_id", "job_id"),
    GroupBy.PROJECT: ("experiment_id", "job_id"),
    GroupBy.EXPERIMENT: ("experiment_id", "job_id"),
    GroupBy.JOB: ("job_id",),
    GroupBy.INSTANCE: ("instance_id",),
    GroupBy.MONTH: ("day",),
    GroupBy.DAY: ("day",),
}
"""What of a line is told apart. Jobs also where a reader may see only some of them."""


@dataclass(frozen=True, slots=True)
class JobOwner:
    """Whose a job is."""

    user_id: int | None = None
    experiment_id: int | None = None


NOBODYS = JobOwner()


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One line of recorded costs, or of those that are not recorded yet."""

    day: str = ""
    """2026-11-28, in UTC; 2026-11: the day is not recorded, as of months long past."""
    pool: str = ""
    instance_id: str = ""
    job_id: str = ""
    kind: CostKind
    user_id: int | None = None
    experiment_id: int | None = None
    usd: float
    hours: float

    @property
    def month(self) -> str:
        return self.day[: len("2026-11")]


def lines_of(charges: Charges, owners: Mapping[str, JobOwner]) -> list[CostLine]:
    """As they would be booked."""
    return [
        CostLine(
            day=key.day,
            pool=key.pool,
            instance_id=key.instance_id,
            job_id=key.job_id,
            kind=key.kind,
            user_id=owners.get(key.job_id, NOBODYS).user_id,
            experiment_id=owners.get(key.job_id, NOBODYS).experiment_id,
            usd=amount.usd,
            hours=amount.hours,
        )
        for key, amount in charges.items()
    ]


def condensed(lines: Iterable[CostLine], keys: Sequence[str]) -> list[CostLine]:
    """The same sums, with only these fields and the kind told apart."""
    sums: dict[tuple[object, ...], CostLine] = {}
    shortened = _shortened(keys)
    for line in lines:
        found = tuple(getattr(line, name) for name in (*keys, "kind"))
        known = sums.get(found)
        if known is None:
            sums[found] = shortened(line)
        else:
            sums[found] = replace(known, usd=known.usd + line.usd, hours=known.hours + line.hours)
    return list(sums.values())


def _shortened(keys: Sequence[str]) -> Callable[[CostLine], CostLine]:
    names = (*keys, "kind", "usd", "hours")
    return lambda line: CostLine(**{name: getattr(line, name) for name in names})
