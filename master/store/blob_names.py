"""Which blobs the state names."""

from __future__ import annotations

from sqlalchemy import select

from master.store import tables
from master.store.sql.statements import table_of
from master.store.store import Store

BLOB_COLUMNS = (
    table_of(tables.Experiment).c.model_definition,
    table_of(tables.Command).c.context,
)
"""Every column that names a blob."""


async def named_blobs(store: Store) -> set[str]:
    found: set[str] = set()
    for column in BLOB_COLUMNS:
        found.update(await store.read(select(column).where(column.is_not(None)).distinct()))
    return found
