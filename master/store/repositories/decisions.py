"""The planner's journal as people read it: paged, newest first, and deleted when it is old."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select

from master.core.visibility import Visibility
from master.store.paging import Page, Paged, read_page
from master.store.store import Store
from master.store.tables import FleetDecision, FleetDecisionSubject, Task
from master.store.unit_of_work import UnitOfWork
from master.store.visible import task_visible
from provisioner.journal.records import (
    Decision,
    DecisionKind,
    decision_from_document,
    job_subject,
    machine_subject,
)

KEPT_S = 90 * 86_400.0
"""An entry goes so long after it was last added to."""
IDS_AT_ONCE = 1_000
"""Ids in one query."""
_D, _S, _T = FleetDecision, FleetDecisionSubject, Task
_SORTS = {"last": _D.last_at}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """All that are given must hold. Times are seconds since the epoch."""

    id: str = ""
    pool: str = ""
    kind: DecisionKind | None = None
    machine: str = ""
    job: str = ""
    since: float | None = None
    """Those that were decided at or after that."""
    until: float | None = None
    """Those that were decided before that."""
    hidden: Collection[str] = ()
    """Pools that the reader is not shown."""


class DecisionQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, wanted: DecisionFilter, *, offset: int, limit: int) -> Paged[Decision]:
        """The newest first, by when they were last decided."""
        statement = select(_D.document)
        if wanted.id:
            statement = statement.where(_D.id == wanted.id)
        if wanted.pool:
            statement = statement.where(_D.pool == wanted.pool)
        if wanted.kind is not None:
            statement = statement.where(_D.kind == wanted.kind.value)
        if wanted.hidden:
            statement = statement.where(_D.pool.not_in(sorted(wanted.hidden)))
        if wanted.since is not None:
            statement = statement.where(_D.last_at >= wanted.since)
        if wanted.until is not None:
            statement = statement.where(_D.first_at < wanted.until)
        subjects = [machine_subject(wanted.machine)] if wanted.machine else []
        subjects += [job_subject(wanted.job)] if wanted.job else []
        for subject in subjects:
            about = select(_S.decision_id).where(_S.subject == subject)
            statement = statement.where(_D.id.in_(about))
        page = Page(offset=offset, limit=limit, descending=True, sort="last")
        return await read_page(
            self._store, statement, decision_from_document, _SORTS, page, tie=_D.id
        )

    async def visible_jobs(self, job_ids: Collection[str], visible: Visibility) -> frozenset[str]:
        """Those of these jobs that may be named."""
        if visible.is_everything and visible.of_interactive.is_everything:
            return frozenset(job_ids)
        shown: set[str] = set()
        ids = sorted(job_ids)
        for start in range(0, len(ids), IDS_AT_ONCE):
            here = _T.job_id.in_(ids[start : start + IDS_AT_ONCE])
            known = (here, *task_visible(_T.id, visible))
            shown.update(await self._store.read(select(_T.job_id).where(*known).distinct()))
        return frozenset(shown)

    async def remove_old(self, now: float) -> None:
        unit = UnitOfWork()
        is_old = (_D.last_at < now - KEPT_S, _D.open.is_(False))
        old = select(_D.id).where(*is_old)
        unit.execute(delete(_S).where(_S.decision_id.in_(old)))
        unit.execute(delete(_D).where(*is_old))
        await self._store.commit(unit)


def jobs_of(decisions: Sequence[Decision]) -> frozenset[str]:
    return frozenset(job_id for each in decisions for job_id in each.jobs)
