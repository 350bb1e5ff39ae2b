"""Units of work, applied together with what they tell live views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from master.store.change_feed import Change
from master.store.sql.changes import Key, changed_by, record_changes
from master.store.sql.statements import apply_operation
from master.store.sql.touched import touches
from master.store.touches import Touch
from master.store.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Written:
    """What a unit of work tells once it is committed."""

    changes: Sequence[Change]
    touches: frozenset[Touch]


def apply_units(connection: Connection, units: Sequence[UnitOfWork]) -> Sequence[Written]:
    return [_apply(connection, unit) for unit in units]


def _apply(connection: Connection, unit: UnitOfWork) -> Written:
    changed: dict[Key, bool] = {}
    touched: set[Touch] = set()
    for operation in unit.operations:
        for key, is_deleted in changed_by(connection, operation):
            changed[key] = is_deleted
        touched.update(touches(connection, operation))
        apply_operation(connection, operation)
    return Written(record_changes(connection, changed), frozenset(touched))
