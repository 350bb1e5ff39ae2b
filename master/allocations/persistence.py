"""Between the state of an allocation and its row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from master.allocations.machine import AllocationState
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from windlass.base.formats.strict_json import StrictJson

_ALLOCATION: StrictJson[AllocationState] = StrictJson(AllocationState)


def allocation_changes(uow: UnitOfWork, old: AllocationState | None, new: AllocationState) -> None:
    """The row of one allocation. Ports and token go with the end of the allocation, in the same transaction."""
    row = {
        "id": new.id,
        "task_id": new.task_id,
        "run_id": new.run_id,
        "state": new.phase.value,
        "pool": new.pool,
        "granted_pool": new.granted_pool,
        "slots": new.slots,
        "token_hash": new.token_hash,
        "is_open": new.is_open,
        "document": _ALLOCATION.dump(new),
        "exit_reason": new.outcome.reason if new.outcome else "",
        "exit_error": new.outcome.error if new.outcome else "",
        "status_code": new.outcome.exit_code if new.outcome else None,
        "requested_at": new.requested_at,
        "started_at": new.started_at,
        "pulled_at": new.pulled_at,
        "ended_at": new.ended_at,
    }
    if old is None or old.id != new.id:
        uow.insert(tables.Allocation, row)
    else:
        values = {k: v for k, v in row.items() if k not in ("id", "task_id")}
        uow.update(tables.Allocation, {"id": new.id}, values, expect=1)
    held = set(old.ports.values()) if old is not None and old.id == new.id else set()
    if not new.is_open:
        if held:
            uow.delete(tables.Port, {"allocation_id": new.id})
        return
    ports = set(new.ports.values())
    for port in sorted(held - ports):
        uow.delete(tables.Port, {"port": port})
    uow.insert(tables.Port, *({"port": p, "allocation_id": new.id} for p in sorted(ports - held)))


def allocation_from_document(document: Mapping[str, object]) -> AllocationState:
    """Raises UnreadableDocument."""
    return _ALLOCATION.load(document, f"allocation {document.get('id')}")


def newest_allocations(rows: Iterable[tables.Allocation]) -> dict[str, AllocationState]:
    """The newest allocation of each task."""
    newest: dict[str, AllocationState] = {}
    for row in sorted(rows, key=lambda r: r.run_id):
        newest[row.task_id] = allocation_from_document(row.document)
    return newest
