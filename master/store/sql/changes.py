"""Rows that say what a unit of work changed, written in its transaction.

Whatever writes a table of `WATCHED` is seen here: nobody has to remember to tell. Only one writer runs at a time, so
that numbers are given in the order of the commits, and a higher one is never committed before a lower one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, delete, func, select

from master.store import tables, unit_of_work
from master.store.change_feed import Change
from master.store.sql.statements import matching_ids, table_of, upsert_rows
from master.store.unit_of_work import Add, Delete, Execute, Insert, Operation, Update

PROJECTS, MODELS, VERSIONS = "projects", "models", "modelversions"
WATCHED: Mapping[unit_of_work.Table, str] = {
    tables.Project: PROJECTS,
    tables.Model: MODELS,
    tables.ModelVersion: VERSIONS,
}
"""Tables with an integer `id` whose rows live views show, by the kind of their changes."""
UNSHOWN = "unshown"
"""Execution option of a statement on a watched table: it changes nothing that is shown."""
KEPT_DELETIONS = 10_000
"""Rows of deleted entities: for who follows the table, and so that the highest number stays."""
Key = tuple[str, int]
_C = tables.Change
_WATCHED_TABLES = frozenset(table_of(table) for table in WATCHED)


def changed_by(connection: Connection, operation: Operation) -> Iterator[tuple[Key, bool]]:
    """Before the operation is applied: which entities it changes, and whether it deletes them."""
    if isinstance(operation, Execute):
        _require_plain(operation)
        return
    kind = WATCHED.get(operation.table)
    if kind is None:
        return
    match operation:
        case Insert(_, rows):
            yield from (((kind, _id(row)), False) for row in rows)
        case Update(table, where, values):
            ids = matching_ids(connection, table, where)
            yield from (((kind, id_), False) for id_ in ids)
            if (
                table is tables.Model and "workspace_id" in values
            ):  # versions are where their model is
                for id_ in ids:
                    versions = matching_ids(connection, tables.ModelVersion, {"model_id": id_})
                    yield from (((VERSIONS, version), False) for version in versions)
        case Delete(table, where):
            ids = matching_ids(connection, table, where)
            yield from (((kind, id_), True) for id_ in ids)
        case _:
            row = operation.row
            if isinstance(operation, Add):
                raise TypeError(f"{kind} are changed by insert, update, upsert and delete alone")
            yield (kind, _id(row)), False


def record_changes(connection: Connection, changed: Mapping[Key, bool]) -> Sequence[Change]:
    """Write down that these are changed, and whether they are deleted."""
    if not changed:
        return ()
    last = connection.execute(select(func.coalesce(func.max(_C.seq), 0))).scalar_one()
    changes = [
        Change(kind, id_, seq, is_deleted)
        for seq, ((kind, id_), is_deleted) in enumerate(changed.items(), last + 1)
    ]
    rows = [
        {"kind": one.kind, "entity_id": one.id, "seq": one.seq, "deleted": one.deleted}
        for one in changes
    ]
    upsert_rows(connection, _C, rows)
    if any(one.deleted for one in changes):
        old = _C.seq <= changes[-1].seq - KEPT_DELETIONS
        connection.execute(delete(_C).where(_C.deleted, old))
    return changes


def _id(row: Mapping[str, object]) -> int:
    id_ = row["id"]
    if not isinstance(id_, int):
        raise TypeError(f"id: {id_!r} is no integer")
    return id_


def _require_plain(operation: Execute) -> None:
    """Raises TypeError for a statement whose rows nobody could tell."""
    table = getattr(operation.statement, "table", None)
    if table is not None and table in _WATCHED_TABLES:
        options = operation.statement.get_execution_options()
        if not options.get(UNSHOWN):
            raise TypeError(f"{table.name} is watched: use insert, update, upsert or delete")
