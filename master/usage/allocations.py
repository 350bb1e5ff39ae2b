"""Past and present allocations with what accounting asks of them, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import and_, func, or_, select

from master.core.visibility import Visibility
from master.store import tables
from master.store.store import Store
from master.store.visible import task_visible

PAGE = 1_000

_A, _K, _U, _E, _P, _C, _W = (
    tables.Allocation,
    tables.Task,
    tables.User,
    tables.Experiment,
    tables.Project,
    tables.Command,
    tables.Workspace,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start` on, before `end`."""

    start: datetime
    end: datetime

    def seconds(self, start: datetime, end: datetime) -> float:
        """How much of the time from `start` to `end` lies within."""
        return max(0.0, (min(end, self.end) - max(start, self.start)).total_seconds())


class UsedAllocation(NamedTuple):
    id: str
    slots: int
    started_at: datetime
    ended_at: datetime | None
    """None: it runs."""
    pulled_at: datetime | None
    """None: no image had to be pulled."""
    pool: str
    """Where it ran."""
    task_type: str
    user_id: int
    username: str
    experiment_id: int | None
    labels: Sequence[str] | None
    workspace: str | None
    trial_id: int | None
    run_id: int

    def until(self, now: datetime) -> datetime:
        return now if self.ended_at is None else self.ended_at

    @property
    def pull_s(self) -> float | None:
        if self.pulled_at is None:
            return None
        return max(0.0, (self.pulled_at - self.started_at).total_seconds())


async def used_allocations(
    store: Store, interval: Interval, visible: Visibility
) -> AsyncGenerator[list[UsedAllocation], None]:
    """Those that ran within the interval, in order of start."""
    workspace_id = func.coalesce(_P.workspace_id, _C.workspace_id)
    statement = (
        select(
            _A.id,
            _A.slots,
            _A.started_at,
            _A.ended_at,
            _A.pulled_at,
            func.coalesce(_A.granted_pool, _A.pool),
            _K.type,
            _K.owner_id,
            func.coalesce(_U.username, ""),
            _K.experiment_id,
            _E.labels,
            _W.name,
            _K.trial_id,
            _A.run_id,
        )
        .join(_K, _K.id == _A.task_id)
        .outerjoin(_U, _U.id == _K.owner_id)
        .outerjoin(_E, _E.id == _K.experiment_id)
        .outerjoin(_P, _P.id == _E.project_id)
        .outerjoin(_C, _C.id == _K.id)
        .outerjoin(_W, _W.id == workspace_id)
        .where(
            _A.started_at < interval.end,
            or_(_A.ended_at.is_(None), _A.ended_at > interval.start),
            *task_visible(_A.task_id, visible),
        )
        .order_by(_A.started_at, _A.id)
        .limit(PAGE)
    )
    rows = await store.read(statement, _used)
    while rows:
        yield rows
        last = rows[-1]
        after = or_(
            _A.started_at > last.started_at,
            and_(_A.started_at == last.started_at, _A.id > last.id),
        )
        rows = await store.read(statement.where(after), _used)


def _used(*columns: Any) -> UsedAllocation:
    """For more columns than type checkers follow."""
    return UsedAllocation(*columns)
