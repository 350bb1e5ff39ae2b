"""Fresh SQLite databases of tests: migrated once in each process, then made as that one was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from alembic.config import Config
from sqlalchemy import Connection, text

Upgrade = Callable[[Config, str], None]


class Migrated:
    """Takes the place of `alembic.command.upgrade`."""

    def __init__(self, upgrade: Upgrade) -> None:
        self._upgrade = upgrade
        self._made: dict[str, list[str]] = {}
        """By table of versions: the statements that make the newest form."""

    def __call__(self, config: Config, revision: str) -> None:
        connection: Connection = config.attributes["connection"]
        line = config.attributes["migrations"].version_table
        if revision != "head" or connection.dialect.name != "sqlite" or not _is_empty(connection):
            self._upgrade(config, revision)
        elif line in self._made:
            for statement in self._made[line]:
                connection.exec_driver_sql(statement)
        else:
            self._upgrade(config, revision)
            self._made[line] = _statements(connection)


def _is_empty(connection: Connection) -> bool:
    return connection.scalar(text("SELECT count(*) FROM sqlite_master")) == 0


def _statements(connection: Connection) -> list[str]:
    raw: Any = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return [line for line in raw.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
