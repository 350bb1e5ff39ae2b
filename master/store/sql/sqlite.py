"""SQLite: one writing connection in one thread, a few reading ones beside it (WAL), or all of it inline."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool, StaticPool

from master.store.sql.json_codec import decode_json, encode_json

log = logging.getLogger(__name__)
T = TypeVar("T")

READERS = 4
BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process (a backup, a shell) that holds the write lock."""


class SqliteDatabase:
    """A file made with mode 0600, or a database in memory (`path` None), which is always inline.

    `synchronous` FULL survives power loss; NORMAL may lose the last transactions then, never at a kill.
    """

    dialect = "sqlite"

    def __init__(
        self, path: Path | None, *, inline: bool, synchronous: Literal["FULL", "NORMAL"]
    ) -> None:
        self._path = path
        self._synchronous = synchronous
        self._write_thread: Executor | None = None
        self._read_threads: Executor | None = None
        if path is not None:
            _create_private(path)
            if not inline:
                self._write_thread = ThreadPoolExecutor(1, "sqlite-write")
                self._read_threads = ThreadPoolExecutor(READERS, "sqlite-read")
        self._writer = _engine(self._connect_writer, StaticPool, "BEGIN IMMEDIATE")
        self._reader = (
            self._writer
            if path is None
            else _engine(self._connect_reader, QueuePool, "BEGIN", pool_size=READERS)
        )

    async def write(self, work: Callable[[Connection], T]) -> T:
        def transaction() -> T:
            with self._writer.begin() as connection:
                return work(connection)

        return await _run(self._write_thread, transaction)

    async def read(self, work: Callable[[Connection], T]) -> T:
        def snapshot() -> T:
            with self._reader.connect() as connection:
                return work(connection)

        return await _run(self._read_threads, snapshot)

    async def close(self) -> None:
        """Readers first: then the WAL can be written back into the file, and is empty afterwards."""
        await _run(self._read_threads, self._reader.dispose)
        await _run(self._write_thread, self._write_back)
        await _run(self._write_thread, self._writer.dispose)
        for executor in (self._read_threads, self._write_thread):
            if executor is not None:
                await asyncio.to_thread(executor.shutdown)

    def _write_back(self) -> None:
        """Whoever else has the file open (a backup, a shell) may prevent it: then the WAL stays, and is read again."""
        if self._path is None:
            return
        with suppress(sqlite3.Error), self._writer.connect() as connection:
            driver: Any = connection.connection.dbapi_connection
            busy, *_ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                log.warning("in use by another process, the write-ahead log stays: %s", self._path)

    def _connect_writer(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path or ":memory:",
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={self._synchronous}",
            "foreign_keys=ON",
            "journal_size_limit=67108864",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=ro",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )


async def _run(executor: Executor | None, work: Callable[[], T]) -> T:
    if executor is None:
        return work()
    return await asyncio.get_running_loop().run_in_executor(executor, work)


def _engine(
    creator: Callable[[], sqlite3.Connection],
    poolclass: type[QueuePool | StaticPool],
    begin: str,
    **options: int,
) -> Engine:
    """The driver is in autocommit mode, and `begin` opens each transaction: its own rules would begin too late."""
    engine = create_engine(
        "sqlite://",
        creator=creator,
        poolclass=poolclass,
        json_serializer=encode_json,
        json_deserializer=decode_json,
        hide_parameters=True,
        **options,
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def _create_private(path: Path) -> None:
    """The file and the directories it needs; SQLite gives its -wal and -shm files the same mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
