"""What a backup needs to know of a state database, read from the copy itself or in the transaction of the copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine, inspect, select

from master.recovery.identity import CLUSTER_ID
from master.recovery.sqlite_files import reading
from master.store import tables
from master.store.blob_names import BLOB_COLUMNS
from master.store.migrate import STATE, Migrations, current_revision
from master.store.sql.json_codec import decode_json, encode_json
from master.store.sql.rows import fetch
from windlass.base.errors import InvalidState


@dataclass(frozen=True, slots=True)
class StateFacts:
    cluster_id: str
    revision: str
    blobs: frozenset[str]
    """Ids of all files that the state names."""


def state_facts(connection: Connection) -> StateFacts:
    """Raises InvalidState for a database that no master has used."""
    revision = current_revision(connection, STATE)
    if revision is None:
        raise InvalidState("the database holds no cluster: no master has been started with it")
    wanted = tables.Meta.key == CLUSTER_ID
    ids = fetch(connection, select(tables.Meta.value).where(wanted))
    if not ids:
        raise InvalidState("the database holds no cluster: its master has not come up yet")
    return StateFacts(str(ids[0]), revision, named_blobs(connection))


def named_blobs(connection: Connection) -> frozenset[str]:
    there = set(inspect(connection).get_table_names())
    found: set[str] = set()
    for column in BLOB_COLUMNS:
        if column.table.name in there:
            rows = connection.execute(select(column).distinct())
            found.update(blob for (blob,) in rows if blob)
    return frozenset(found)


def facts_of_file(path: Path) -> StateFacts:
    engine = file_engine(path)
    with engine.connect() as connection:
        return state_facts(connection)


def blobs_of_file(path: Path) -> frozenset[str]:
    """While a master may write to it."""
    with reading(path) as driver:
        engine = create_engine("sqlite://", creator=lambda: driver, poolclass=NullPool)
        with engine.connect() as connection:
            return named_blobs(connection)


def revision_of_file(path: Path, line: Migrations) -> str:
    engine = file_engine(path)
    with engine.connect() as connection:
        return current_revision(connection, line) or ""


def file_engine(path: Path) -> Engine:
    """Of a file that nobody else writes."""
    return create_engine(
        f"sqlite:///{path}",
        poolclass=NullPool,
        json_serializer=encode_json,
        json_deserializer=decode_json,
    )
