"""Looks at a data folder and its databases, and changes nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import Connection, NullPool, create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from master.auth.join_tokens import read_secret
from master.data_folder import SECRET
from master.logs.tables import LOGS
from master.recovery.decision import Content, FoundData, FoundDatabase
from master.recovery.identity import (
    CLUSTER_ID,
    SECRET_MARK,
    read_identity,
    secret_mark,
    way_back,
)
from master.recovery.places import DataPlaces
from master.recovery.sqlite_files import reading
from master.store.migrate import (
    STATE,
    Migrations,
    current_revision,
    head_revision,
    known_revisions,
)
from master.store.sql.database import open_database, parse_url
from master.store.sql.faults import as_windlass_error
from master.store.sql.json_codec import decode_json
from windlass.base.errors import InvalidConfig

MAGIC = b"SQLite format 3\0"
NAMED = 3
"""Foreign tables that a message names."""


async def look(places: DataPlaces, *, inline: bool) -> FoundData:
    """Raises InvalidState for a `cluster.json` that cannot be read, StoreUnavailable, OSError."""
    if places.files is not None:
        files = places.files

        def both() -> tuple[FoundDatabase, FoundDatabase]:
            return look_at_file(files.state, STATE), look_at_file(files.logs, LOGS)

        state, logs = both() if inline else await asyncio.to_thread(both)
    else:
        state, logs = await _look_at_server(places.url)
    blobs = places.folder / "blobs"
    return FoundData(
        folder=places.folder,
        identity=read_identity(places.folder),
        secret=_look_at_secret(places.folder / SECRET, state),
        has_blobs=blobs.is_dir() and any(blobs.iterdir()),
        state=state,
        logs=logs,
        way_back=way_back(places.folder),
    )


def _look_at_secret(path: Path, state: FoundDatabase) -> Content:
    if not path.exists():
        return Content.MISSING
    try:
        secret = read_secret(path)
    except InvalidConfig:
        return Content.DAMAGED
    if state.secret_mark is None or state.cluster_id is None:
        return Content.OURS
    same = secret_mark(secret, state.cluster_id) == state.secret_mark
    return Content.OURS if same else Content.FOREIGN


def look_at_file(path: Path, line: Migrations) -> FoundDatabase:
    where = str(path)
    if not path.exists():
        return FoundDatabase(where=where, content=Content.MISSING)
    if (detail := _broken_header(path)) is not None:
        content = Content.DAMAGED if detail else Content.EMPTY
        return FoundDatabase(where=where, content=content, detail=detail)

    try:
        with reading(path) as driver:
            engine = create_engine("sqlite://", creator=lambda: driver, poolclass=NullPool)
            with engine.connect() as connection:
                return _look_inside(connection, line, where, alone=True)
    except (SQLAlchemyError, sqlite3.Error) as error:
        detail = str(as_windlass_error(error)).rpartition(": ")[2]
        return FoundDatabase(where=where, content=Content.DAMAGED, detail=detail)


def _broken_header(path: Path) -> str | None:
    """None: SQLite can tell the rest. "": there is nothing in it. Else what is wrong with the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(100)
    if size == 0:
        return ""
    if header[:16] != MAGIC:
        return "it is not an SQLite file"
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    wal = path.with_name(f"{path.name}-wal")
    pages_are_told = header[24:28] == header[92:96]
    if pages_are_told and size < page * pages and not (wal.exists() and wal.stat().st_size):
        return f"it was cut, {size} of {page * pages} bytes are there"
    return None


async def _look_at_server(url: str) -> tuple[FoundDatabase, FoundDatabase]:
    database = open_database(url)
    where = f"the PostgreSQL database {parse_url(url).database}"

    def both(connection: Connection) -> tuple[FoundDatabase, FoundDatabase]:
        state = _look_inside(connection, STATE, where, alone=False)
        return state, _look_inside(connection, LOGS, f"in {where}", alone=False)

    try:
        return await database.read(both)
    except Exception as error:
        raise as_windlass_error(error) from error
    finally:
        await database.close()


def _look_inside(
    connection: Connection, line: Migrations, where: str, *, alone: bool
) -> FoundDatabase:
    """`alone`: nothing else may be in this database but one line of migrations."""
    there = inspect(connection).get_table_names()
    if line.version_table not in there:
        strange = sorted(t for t in there if alone or line.owns(t))
        if not strange:
            return FoundDatabase(where=where, content=Content.EMPTY)
        named = ", ".join(strange[:NAMED]) + (", ..." if len(strange) > NAMED else "")
        detail = f"it has the tables {named}"
        return FoundDatabase(where=where, content=Content.FOREIGN, detail=detail)
    revision = current_revision(connection, line)
    if revision not in known_revisions(line):
        detail = f"revision {revision} of its tables is unknown here"
        return FoundDatabase(where=where, content=Content.NEWER, detail=detail)
    facts = _facts(connection, there)
    return FoundDatabase(
        where=where,
        content=Content.OURS,
        cluster_id=facts.get(CLUSTER_ID),
        is_older=revision != head_revision(line),
        secret_mark=facts.get(SECRET_MARK),
    )


def _facts(connection: Connection, there: Collection[str]) -> dict[str, str]:
    table = next((name for name in ("meta", "log_meta") if name in there), None)
    if table is None:
        return {}
    rows = connection.execute(text(f"SELECT key, CAST(value AS TEXT) FROM {table}"))  # noqa: S608
    return {
        key: decode_json(value) if table == "meta" else value
        for key, value in rows
        if key in (CLUSTER_ID, SECRET_MARK)
    }
