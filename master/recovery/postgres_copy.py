"""A PostgreSQL database as files, one for each table, and back: COPY inside one transaction.

Not pg_dump: that must be as new as the server, and is not everywhere. The schema comes from our own migrations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Table, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlmodel import SQLModel

from master.logs.tables import LOGS, METADATA
from master.recovery.manifest import TableEntry
from master.recovery.state_facts import StateFacts, named_blobs, state_facts
from master.store.migrate import STATE, current_revision, head_revision, upgrade
from master.store.sql.database import parse_url
from master.store.sql.faults import as_windlass_error
from windlass.base.errors import Conflict, InvalidState

FOLDER = "postgresql"


def _tables() -> Sequence[Table]:
    """Parents before their children."""
    return (*SQLModel.metadata.sorted_tables, *METADATA.sorted_tables)


async def copy_out(url: str, folder: Path) -> tuple[StateFacts, tuple[TableEntry, ...]]:
    """Write each table to `folder`/postgresql/<name>.copy, all as of one moment.

    Raises InvalidState if the schema is not the one of this release.
    """
    engine = _reading_engine(url)
    try:
        async with engine.connect() as connection:
            facts = await connection.run_sync(state_facts)
            for line in (STATE, LOGS):
                found = await connection.run_sync(current_revision, line)
                if found != head_revision(line):
                    raise InvalidState(
                        f"the database has revision {found or 'none'}, this release {head_revision(line)}: "
                        "back it up with the release that its master runs"
                    )
            await asyncio.to_thread((folder / FOLDER).mkdir, 0o700)
            made = [await _copy_table_out(connection, folder, table) for table in _tables()]
            return facts, tuple(made)
    except Exception as error:
        raise as_windlass_error(error) from error
    finally:
        await engine.dispose()


async def read_all(url: str) -> None:
    """Read every row. Raises StoreUnavailable for one that cannot be read."""

    async def forget(_: bytes) -> None: ...

    engine = _reading_engine(url)
    try:
        async with engine.connect() as connection:
            driver = await _driver(connection)
            for table in _tables():
                await driver.copy_from_table(table.name, output=forget)
    except Exception as error:
        raise as_windlass_error(error) from error
    finally:
        await engine.dispose()


async def named_blobs_of(url: str) -> frozenset[str]:
    engine = _reading_engine(url)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(named_blobs)
    finally:
        await engine.dispose()


def _reading_engine(url: str) -> AsyncEngine:
    """Whose connections see the database as of one moment, and change nothing."""
    return create_async_engine(
        parse_url(url).set(drivername="postgresql+asyncpg"),
        isolation_level="REPEATABLE READ",
        connect_args={"server_settings": {"default_transaction_read_only": "on"}},
    )


async def _copy_table_out(connection: AsyncConnection, folder: Path, table: Table) -> TableEntry:
    columns = tuple(table.c.keys())
    target = folder / FOLDER / f"{table.name}.copy"
    target.touch(mode=0o600)
    driver = await _driver(connection)
    done = await driver.copy_from_table(table.name, columns=columns, output=target)
    return TableEntry(name=table.name, columns=columns, rows=int(done.split()[-1]))


async def copy_in(
    url: str, folder: Path, tables: Sequence[TableEntry], *, revisions: tuple[str, str], epochs: int
) -> None:
    """Fill an empty database: all of it or nothing. Raises Conflict if it is not empty."""
    engine = create_async_engine(parse_url(url).set(drivername="postgresql+asyncpg"))
    try:
        async with engine.begin() as connection:
            there = await connection.run_sync(lambda c: inspect(c).get_table_names())
            if there:
                raise Conflict(
                    f"the PostgreSQL database is not empty, it has {len(there)} tables ({there[0]}, ...): "
                    "restore into a new one (createdb), or drop and create this one"
                )
            for line, revision in zip((STATE, LOGS), revisions, strict=True):
                await connection.run_sync(upgrade, line, revision)
            driver = await _driver(connection)
            for table in tables:
                done = await driver.copy_to_table(
                    table.name, columns=table.columns, source=folder / FOLDER / f"{table.name}.copy"
                )
                if int(done.split()[-1]) != table.rows:
                    raise InvalidState(f"{table.name}: {done} instead of {table.rows} rows")
            await connection.execute(
                text("UPDATE leader SET epoch = epoch + :epochs, master_id = ''"),
                {"epochs": epochs},
            )
    except Exception as error:
        raise as_windlass_error(error) from error
    finally:
        await engine.dispose()


async def _driver(connection: AsyncConnection) -> Any:
    """The connection of asyncpg, in the transaction of `connection`, which has begun."""
    await connection.execute(text("SELECT 1"))
    raw = await connection.get_raw_connection()
    return raw.driver_connection
