"""Fresh databases of tests: migrated once in each process, then made as that one was.

Those of SQLite by the statements that make it; the one of PostgreSQL is emptied after each test.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from alembic.config import Config
from sqlalchemy import Connection, text

from master.store.migrate import Migrations, current_revision

WITH_TABLES = "windlass_tables_"
"""How the names of databases begin that have all tables already."""
EMPTY_TABLES = """
DO $$
DECLARE
    name text;
    has_rows boolean;
    filled text;
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    FOR name IN SELECT quote_ident(tablename) FROM pg_tables
        WHERE schemaname = current_schema() AND NOT starts_with(tablename, 'alembic_')
    LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM ' || name || ')' INTO has_rows;
        IF has_rows THEN
            filled := concat_ws(', ', filled, name);
        END IF;
    END LOOP;
    IF filled IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || filled || ' RESTART IDENTITY CASCADE';
    END IF;
END $$
"""
"""For PostgreSQL. A new database for each test takes a second or more."""
Upgrade = Callable[[Config, str], None]


class Migrated:
    """Takes the place of `alembic.command.upgrade`."""

    def __init__(self, upgrade: Upgrade) -> None:
        self._upgrade = upgrade
        self._made: dict[str, list[str]] = {}
        """By table of versions: the statements that make the newest form."""

    def __call__(self, config: Config, revision: str) -> None:
        connection: Connection = config.attributes["connection"]
        migrations: Migrations = config.attributes["migrations"]
        line = migrations.version_table
        if (
            revision == "head"
            and (connection.engine.url.database or "").startswith(WITH_TABLES)
            and current_revision(connection, migrations) is not None
        ):
            return
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
