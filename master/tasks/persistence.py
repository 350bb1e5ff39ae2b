"""Between the live state of interactive tasks and rows: the difference of two states as one unit of work, and back."""

from __future__ import annotations

from decimal import Decimal

from master.allocations.machine import AllocationState
from master.allocations.persistence import allocation_changes
from master.core.jobs import JobType
from master.roots.root import AllocationChange
from master.store import tables
from master.store.unit_of_work import UnitOfWork, changed_values
from master.tasks.kinds import KINDS
from master.tasks.state import Ending, TaskPhase, TaskState


def changes(old: TaskState | None, new: TaskState) -> UnitOfWork:
    """Everything that differs between the stored state and the new one, as one atomic unit."""
    uow = UnitOfWork()
    if old is None:
        uow.insert(tables.Task, _task_row(new))
        uow.insert(tables.Command, {**_fixed_columns(new), **_columns(new)})
        shown = KINDS[new.type].shows(new.details)
        rows = ({"task_id": new.id, "experiment_id": id_} for id_ in shown)
        uow.insert(tables.ShownExperiment, *rows)
    else:
        if changed := changed_values(_columns(old), _columns(new)):
            uow.update(tables.Command, {"id": new.id}, changed, expect=1)
        if new.ended_at != old.ended_at:
            uow.update(tables.Task, {"id": new.id}, {"ended_at": new.ended_at}, expect=1)
    if (change := changed_allocation(old, new)) is not None:
        allocation_changes(uow, *change)
    return uow


def changed_allocation(old: TaskState | None, new: TaskState) -> AllocationChange | None:
    """None if nothing about it changed."""
    last = old.allocation if old is not None else None
    if new.allocation is None or new.allocation is last:
        return None
    return (last if last is not None and last.id == new.allocation.id else None), new.allocation


def _task_row(state: TaskState) -> dict[str, object]:
    return {
        "id": state.id,
        "type": state.type.value,
        "job_id": state.job_id,
        "owner_id": state.owner_id,
        "experiment_id": state.experiment_id,
        "trial_id": None,
        "created_at": state.created_at,
        "ended_at": state.ended_at,
    }


def _fixed_columns(state: TaskState) -> dict[str, object]:
    return {
        "id": state.id,
        "type": state.type.value,
        "job_id": state.job_id,
        "owner_id": state.owner_id,
        "workspace_id": state.workspace_id,
        "description": state.config.description,
        "context": state.context,
        "details": dict(state.details),
        "resource_pool": state.pool,
        "created_at": state.created_at,
    }


def _columns(state: TaskState) -> dict[str, object]:
    """Those that change."""
    return {
        "state": state.phase.value,
        "config": state.config.to_json(),
        "queue_position": None if state.position is None else str(state.position),
        "active_at": state.active_at,
        "ending": None if state.ending is None else state.ending.value,
        "exit_status": state.exit_status,
        "ended_at": state.ended_at,
    }


def task_from_row(row: tables.Command, allocation: AllocationState | None) -> TaskState:
    """`allocation`: its newest allocation."""
    position, type_ = row.queue_position, JobType(row.type)
    return TaskState(
        type=type_,
        id=row.id,
        job_id=row.job_id,
        owner_id=row.owner_id,
        workspace_id=row.workspace_id,
        config=KINDS[type_].model.from_json(row.config),
        pool=row.resource_pool,
        created_at=row.created_at,
        context=row.context,
        details=row.details or {},
        position=None if position is None else Decimal(position),
        phase=TaskPhase(row.state),
        active_at=row.active_at,
        ran_before=allocation.run_id - 1 if allocation and KINDS[type_].can_pause else 0,
        ending=None if row.ending is None else Ending(row.ending),
        exit_status=row.exit_status,
        ended_at=row.ended_at,
        allocation=allocation,
    )
