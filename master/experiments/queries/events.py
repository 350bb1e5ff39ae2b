"""What happened to an experiment or a trial, in order: read from the rows that tell of it, one page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    Integer,
    SQLColumnExpression,
    String,
    cast,
    func,
    literal,
    null,
    select,
    type_coerce,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlmodel import UTCDateTime

from master.allocations.machine import AllocationState
from master.allocations.persistence import allocation_from_document
from master.store import tables
from master.store.paging import Page, Paged, place
from master.store.store import Store
from windlass.base.formats.json_types import JsonObject

_E, _T, _K, _A, _C = (
    tables.Experiment,
    tables.Trial,
    tables.Task,
    tables.Allocation,
    tables.Checkpoint,
)


class EventKind(StrEnum):
    """In the order of events of one moment and one run."""

    EXPERIMENT_CREATED = "experiment_created"
    TRIAL_CREATED = "trial_created"
    ALLOCATION_QUEUED = "allocation_queued"
    ALLOCATION_STARTED = "allocation_started"
    CHECKPOINT_REPORTED = "checkpoint_reported"
    PREEMPTION_REQUESTED = "preemption_requested"
    ALLOCATION_ENDED = "allocation_ended"
    TRIAL_ENDED = "trial_ended"
    EXPERIMENT_ENDED = "experiment_ended"


_KINDS = tuple(EventKind)
_EMPTY = literal("")
_NO_RUN, _AFTER_ALL = literal(0, Integer), literal(2**31 - 1, Integer)
"""In place of the number of a run: of one moment, what belongs to an earlier run comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at: datetime
    kind: EventKind
    trial_id: int | None = None
    allocation: AllocationState | None = None
    """Of events of allocations."""
    checkpoint: tables.Checkpoint | None = None
    state: str = ""
    """In which the trial or the experiment ended."""
    error: str = ""


class _Row(NamedTuple):
    at: datetime
    kind: int
    """Its place in `EventKind`."""
    trial_id: int | None
    ref: str
    """Id of the allocation or the checkpoint; the state in which something ended."""
    error: str


class _Document(NamedTuple):
    id: str
    document: JsonObject


class EventQueries:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def of_experiment(self, experiment_id: int, page: Page) -> Paged[Event]:
        """The newest first, if the page is descending."""
        own = _E.id == experiment_id
        parts = (
            _part(_E.created_at, EventKind.EXPERIMENT_CREATED, null()).where(own),
            _end(_E.ended_at, EventKind.EXPERIMENT_ENDED, null(), _E.state, _E.error).where(own),
            *_parts(
                _T.experiment_id == experiment_id,
                _K.experiment_id == experiment_id,
                _C.experiment_id == experiment_id,
            ),
        )
        return await self._page(parts, page)

    async def of_trial(self, trial_id: int, page: Page) -> Paged[Event]:
        parts = _parts(_T.id == trial_id, _K.trial_id == trial_id, _C.trial_id == trial_id)
        return await self._page(parts, page)

    async def allocations(self, trial_id: int, page: Page) -> Paged[AllocationState]:
        """Of all tasks that a trial was, in order."""
        of_trial = select(_A.document).join(_K, _K.id == _A.task_id).where(_K.trial_id == trial_id)
        counted = of_trial.with_only_columns(func.count(), maintain_column_froms=True)
        total = await self._store.read_one(counted) or 0
        offset, limit = place(page, total)
        order = (_A.requested_at, _A.run_id)
        ordered = of_trial.order_by(*(one.desc() if page.descending else one for one in order))
        rows = [
            allocation_from_document(one)
            for one in await self._store.read(ordered.offset(offset).limit(limit))
        ]
        return Paged(rows=rows, total=total, offset=offset, limit=limit)

    async def _page(self, parts: Sequence[Any], page: Page) -> Paged[Event]:
        all_ = union_all(*parts).subquery()
        happened = all_.c.at.is_not(None)
        counted = [
            part.with_only_columns(func.count(part.selected_columns.at), maintain_column_froms=True)
            for part in parts
        ]
        # Of each part alone: the whole is not put together for that.
        numbers: Any = sum(one.scalar_subquery() for one in counted)
        total = await self._store.read_one(select(numbers))
        offset, limit = place(page, total or 0)
        order = (all_.c.at, all_.c.run, all_.c.kind, all_.c.ref)
        rows = await self._store.read(
            select(all_.c.at, all_.c.kind, all_.c.trial_id, all_.c.ref, all_.c.error)
            .where(happened)
            .order_by(*(one.desc() if page.descending else one for one in order))
            .offset(offset)
            .limit(limit),
            _Row,
        )
        return Paged(rows=await self._events(rows), total=total or 0, offset=offset, limit=limit)

    async def _events(self, rows: Sequence[_Row]) -> list[Event]:
        kinds = [_KINDS[row.kind] for row in rows]
        named = {row.ref for row, kind in zip(rows, kinds, strict=True) if kind in _OF_ALLOCATIONS}
        saved = {
            row.ref
            for row, kind in zip(rows, kinds, strict=True)
            if kind is EventKind.CHECKPOINT_REPORTED
        }
        documents = await self._store.read(
            select(_A.id, _A.document).where(_A.id.in_(sorted(named))), _Document
        )
        allocations = {one.id: allocation_from_document(one.document) for one in documents}
        found = await self._store.read(select(_C).where(_C.uuid.in_(sorted(saved))))
        checkpoints = {one.uuid: one for one in found}
        return [
            Event(
                at=row.at,
                kind=kind,
                trial_id=row.trial_id,
                allocation=allocations.get(row.ref) if kind in _OF_ALLOCATIONS else None,
                checkpoint=checkpoints.get(row.ref),
                state=row.ref if kind in _ENDS else "",
                error=row.error,
            )
            for row, kind in zip(rows, kinds, strict=True)
        ]


_ENDS = frozenset({EventKind.TRIAL_ENDED, EventKind.EXPERIMENT_ENDED})
_OF_ALLOCATIONS = frozenset(
    {
        EventKind.ALLOCATION_QUEUED,
        EventKind.ALLOCATION_STARTED,
        EventKind.PREEMPTION_REQUESTED,
        EventKind.ALLOCATION_ENDED,
    }
)


class _StoredTime(FunctionElement[datetime]):
    """A time in a JSON document."""

    type = UTCDateTime()
    inherit_cache = True


@compiles(_StoredTime, "sqlite")
def _in_sqlite(element: _StoredTime, compiler: SQLCompiler, **options: Any) -> str:
    # Its times are texts that sort.
    return f"replace(replace({compiler.process(element.clauses, **options)}, 'T', ' '), 'Z', '')"


@compiles(_StoredTime, "postgresql")
def _in_postgresql(element: _StoredTime, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS TIMESTAMP WITH TIME ZONE)"


_preempt_asked_at = _StoredTime(type_coerce(_A.document, JSON)["preempt_asked_at"].as_string())


def _parts(of_trials: Any, of_tasks: Any, of_checkpoints: Any) -> tuple[Any, ...]:
    """What happened to trials, their allocations and checkpoints; each condition chooses from one table."""

    def of_allocation(at: Any, kind: EventKind) -> Any:
        return (
            _part(at, kind, _K.trial_id, _A.id, run=_A.run_id)
            .select_from(_A)
            .join(_K, _K.id == _A.task_id)
            .where(of_tasks, _K.trial_id.is_not(None))
        )

    return (
        _part(_T.created_at, EventKind.TRIAL_CREATED, _T.id).where(of_trials),
        _end(_T.ended_at, EventKind.TRIAL_ENDED, _T.id, _T.state, _T.error).where(of_trials),
        of_allocation(_A.requested_at, EventKind.ALLOCATION_QUEUED),
        of_allocation(_A.started_at, EventKind.ALLOCATION_STARTED),
        of_allocation(_preempt_asked_at, EventKind.PREEMPTION_REQUESTED),
        of_allocation(_A.ended_at, EventKind.ALLOCATION_ENDED),
        _part(
            _C.reported_at, EventKind.CHECKPOINT_REPORTED, _C.trial_id, _C.uuid, run=_C.run_id
        ).where(of_checkpoints),
    )


def _end(at: Any, kind: EventKind, trial_id: Any, state: Any, error: Any) -> Any:
    return _part(at, kind, trial_id, state, error, run=_AFTER_ALL)


def _part(
    at: Any,
    kind: EventKind,
    trial_id: Any,
    ref: SQLColumnExpression[str] = _EMPTY,
    error: SQLColumnExpression[str] = _EMPTY,
    *,
    run: SQLColumnExpression[int] = _NO_RUN,
) -> Any:
    return select(
        at.label("at"),
        run.label("run"),
        literal(_KINDS.index(kind), Integer).label("kind"),
        cast(trial_id, Integer).label("trial_id"),
        cast(ref, String).label("ref"),
        cast(error, String).label("error"),
    )
