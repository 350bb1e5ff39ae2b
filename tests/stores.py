"""Opening and owning stores in tests; the fixtures are in conftest.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import NullPool, create_engine, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

from master.store.sql.database import parse_url
from master.store.store import Store
from windlass.base.clock import ManualClock


class Service(Protocol):
    async def run(self) -> None: ...

    async def close(self) -> None: ...


S = TypeVar("S", bound=Service)


@asynccontextmanager
async def running(service: S) -> AsyncIterator[S]:
    """Own the `run()` of a store while the block runs, then close it."""
    task = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await service.close()


@asynccontextmanager
async def leading_store(
    url: str, clock: ManualClock, *, inline: bool = False
) -> AsyncIterator[Store]:
    """A store that leads and runs."""
    store = await Store.open(url, clock=clock, inline=inline)
    await store.take_lease("test-master")
    async with running(store):
        yield store


async def administer(server: str, statement: str) -> None:
    """On a PostgreSQL server, beside all transactions."""
    url = parse_url(server).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.exec_driver_sql(statement)
    await engine.dispose()


def read_rows(database: Path, table: str, order: str) -> list[dict[str, Any]]:
    """All rows of a table of a SQLite store, while its master may be running."""
    engine = create_engine(f"sqlite:///{database}", poolclass=NullPool)
    found = SQLModel.metadata.tables[table]
    with engine.connect() as connection:
        rows = connection.execute(select(found).order_by(found.c[order])).mappings().all()
    engine.dispose()
    return [dict(row) for row in rows]
