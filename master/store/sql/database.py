"""The two databases behind one small Protocol.

Work is a synchronous function of a SQLAlchemy connection, so that one transaction of many statements is one hop to
wherever its database runs: a thread for SQLite, the event loop for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError

from master.store.sql.postgres import PostgresDatabase
from master.store.sql.sqlite import SqliteDatabase
from windlass.base.errors import InvalidArgument

T = TypeVar("T")


class Database(Protocol):
    """Raises what SQLAlchemy raises; `master.store.sql.faults` translates."""

    @property
    def dialect(self) -> str:
        """Of SQL: sqlite or postgresql."""
        ...

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction on the only writing connection; durable when this returns.

        One call at a time. A cancelled call may still commit.
        """
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a connection that cannot write."""
        ...

    async def close(self) -> None: ...


def open_database(
    url: str, *, inline: bool = False, synchronous: Literal["FULL", "NORMAL"] = "FULL"
) -> Database:
    """`sqlite:///relative`, `sqlite:////absolute`, `sqlite://` (in memory, always inline), or `postgresql://...`.

    `inline` runs SQLite on the event loop's own thread: for simulations, where a thread would break determinism.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        path = Path(parsed.database) if parsed.database not in (None, "", ":memory:") else None
        return SqliteDatabase(path, inline=inline, synchronous=synchronous)
    return PostgresDatabase(parsed.set(drivername="postgresql+asyncpg"))


def parse_url(url: str) -> URL:
    if url.startswith("postgres://"):
        url = "postgresql://" + url.removeprefix("postgres://")
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidArgument(
            'db.url is not a database URL: write "sqlite:////path/to/windlass.db" or '
            '"postgresql://user:password@host:5432/name"'
        ) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise InvalidArgument(
            f'db.url: "{parsed.get_backend_name()}" is not supported: use sqlite or postgresql'
        )
    return parsed
