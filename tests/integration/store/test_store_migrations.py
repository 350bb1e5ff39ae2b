"""Tables and migrations say the same, on both databases, in one piece."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import MetaData, Table, column, inspect, table, text

from master.logs.tables import LOGS
from master.store.migrate import STATE, Migrations, config_for, differences, upgrade
from master.store.sql.database import Database, open_database
from windlass.base.errors import StoreUnavailable


@pytest.fixture
async def database(db_url: str) -> AsyncIterator[Database]:
    database = open_database(db_url)
    yield database
    await database.close()


@pytest.fixture(params=[STATE, LOGS], ids=["state", "logs"])
def migrations(request: pytest.FixtureRequest) -> Migrations:
    found: Migrations = request.param
    return found


async def test_migrating_makes_exactly_the_tables_of_the_code(database: Database) -> None:
    for migrations in (STATE, LOGS):
        await database.write(lambda connection, m=migrations: upgrade(connection, m))  # type: ignore[misc]
    for migrations in (STATE, LOGS):
        found = await database.write(lambda connection, m=migrations: differences(connection, m))  # type: ignore[misc]
        assert found == [], "run python -m tools.revise"
    names = await database.read(lambda connection: inspect(connection).get_table_names())
    expected = {*STATE.metadata.tables, *LOGS.metadata.tables}
    assert set(names) == expected | {STATE.version_table, LOGS.version_table}


async def test_a_difference_is_noticed(database: Database, migrations: Migrations) -> None:
    name = "job" if migrations is STATE else "log_more"

    def change(connection: Any) -> list[Any]:
        upgrade(connection, migrations)
        connection.execute(text(f"CREATE TABLE {name} (id INTEGER)"))
        return differences(connection, migrations)

    (difference,) = await database.write(change)
    assert difference[0] == "remove_table"


async def test_migrating_twice_changes_nothing(database: Database, migrations: Migrations) -> None:
    for _ in range(2):
        await database.write(lambda connection: upgrade(connection, migrations))


async def test_a_migration_that_fails_leaves_nothing(
    database: Database, migrations: Migrations
) -> None:
    def interrupted(connection: Any) -> None:
        upgrade(connection, migrations)
        raise RuntimeError("killed here")

    with pytest.raises(RuntimeError):
        await database.write(interrupted)
    assert await database.read(lambda connection: inspect(connection).get_table_names()) == []
    await database.write(lambda connection: upgrade(connection, migrations))


async def test_a_database_of_a_newer_release_is_refused(
    database: Database, migrations: Migrations
) -> None:
    def newer(connection: Any) -> None:
        upgrade(connection, migrations)
        connection.execute(
            table(migrations.version_table, column("version_num"))
            .update()
            .values(version_num="9999")
        )

    await database.write(newer)
    with pytest.raises(StoreUnavailable, match="newer Windlass"):
        await database.write(lambda connection: upgrade(connection, migrations))


def test_revisions_are_one_line(migrations: Migrations, tmp_path: Path) -> None:
    from alembic.script import ScriptDirectory
    from sqlalchemy import create_engine

    with create_engine("sqlite://").begin() as connection:
        scripts = ScriptDirectory.from_config(config_for(migrations, connection))
        command.heads(config_for(migrations, connection))
    assert len(scripts.get_heads()) == 1
    files = list((migrations.directory / "versions").glob("*.py"))
    assert len(list(scripts.walk_revisions())) == len(files)


async def test_agents_of_the_release_before_are_kept_without_a_credential(
    database: Database,
) -> None:
    def upgraded(connection: Any) -> Any:
        command.upgrade(config_for(STATE, connection), "0002")
        connection.execute(
            text(
                "INSERT INTO agent (id, pool, slots, enabled, draining, slot_service, first_seen)"
                " VALUES ('node-1', 'gpu', 8, true, false, '{}', '2026-01-01 00:00:00+00:00')"
            )
        )
        upgrade(connection, STATE)
        return connection.execute(text("SELECT id, slots, credential_hash FROM agent")).all()

    assert await database.write(upgraded) == [("node-1", 8, None)]


async def test_workspaces_and_projects_that_others_refer_to_get_their_keys(
    database: Database,
) -> None:
    def upgraded(connection: Any) -> Any:
        command.upgrade(config_for(STATE, connection), "0019")
        for table_ in ("user", "workspace", "project"):
            _insert(connection, table_, 1)
        upgrade(connection, STATE)
        found = text("SELECT w.name_key, p.name_key, p.key FROM workspace w, project p")
        return connection.execute(found).all()

    assert await database.write(upgraded) == [("new", "new", "NEW")]


async def test_sessions_of_the_release_before_go_on_and_it_can_still_open_some(
    database: Database,
) -> None:
    def upgraded(connection: Any) -> Any:
        command.upgrade(config_for(STATE, connection), "0023")
        old = Table("usersession", MetaData(), autoload_with=connection)
        _insert(connection, "user", 1)
        _insert(connection, "usersession", 1)
        upgrade(connection, STATE)
        now = datetime.now(UTC)
        row = {"id": 2, "user_id": 1, "token_hash": "h", "created_at": now, "expires_at": now}
        connection.execute(old.insert().values(row))
        found = text("SELECT id, user_id, address FROM usersession ORDER BY id")
        return connection.execute(found).all()

    assert await database.write(upgraded) == [(1, 1, ""), (2, 1, "")]


def _insert(connection: Any, name: str, id_: int) -> None:
    """A row of an old form: what it must have, and references to the first rows."""
    values: dict[str, Any] = {"id": id_}
    found = Table(name, MetaData(), autoload_with=connection)
    for each in found.columns:
        if not each.nullable and each.name not in values and each.server_default is None:
            kind = each.type.python_type
            values[each.name] = (
                "New" if kind is str else datetime.now(UTC) if kind is datetime else kind(1)
            )
    connection.execute(found.insert().values(values))
