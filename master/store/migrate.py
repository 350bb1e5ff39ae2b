"""Alembic without files to configure: the state and the logs each have their own line of migrations.

`tools.revise` writes new revisions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from alembic import command, context
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, MetaData, text
from sqlmodel import AutoString, SQLModel, UTCDateTime

from master.store import tables as _tables  # noqa: F401  (fills SQLModel.metadata)
from master.store.documents import DocumentType
from windlass.base.errors import StoreUnavailable

_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(20260801)")
"""Two masters that start together on PostgreSQL; SQLite has one writer anyway."""


@dataclass(frozen=True, slots=True)
class Migrations:
    """One line of migrations: its directory, the tables it makes, and where it notes how far it came."""

    directory: Path
    metadata: MetaData
    version_table: str
    owns: Callable[[str], bool]
    """Whether a table of the database is one of these: both lines may live in one database."""

    def options(self) -> dict[str, Any]:
        """How Alembic looks at a database."""
        return {
            "target_metadata": self.metadata,
            "version_table": self.version_table,
            "include_name": lambda name, kind, _: kind != "table" or self.owns(name or ""),
            "render_as_batch": True,
            "render_item": _render,
        }


def _render(kind: str, item: Any, _: Any) -> str | Literal[False]:
    """Migrations name SQLAlchemy's own types: what SQLModel calls them may change."""
    if kind == "type" and isinstance(item, UTCDateTime):
        return "sa.DateTime(timezone=True)"
    if kind == "type" and isinstance(item, AutoString):
        return "sa.String()"
    if kind == "type" and isinstance(item, DocumentType):
        return "sa.JSON(none_as_null=True)"
    return False


STATE = Migrations(
    Path(__file__).parent / "migrations",
    SQLModel.metadata,
    "alembic_version",
    lambda name: not name.startswith(("log_", "alembic_")),
)


def config_for(migrations: Migrations, connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations.directory).replace("%", "%%"))
    config.attributes.update(connection=connection, migrations=migrations)
    return config


def known_revisions(migrations: Migrations) -> tuple[str, ...]:
    """Of this release, the newest first."""
    config = Config()
    config.set_main_option("script_location", str(migrations.directory).replace("%", "%%"))
    return tuple(s.revision for s in ScriptDirectory.from_config(config).walk_revisions())


def head_revision(migrations: Migrations) -> str:
    return known_revisions(migrations)[0]


def current_revision(connection: Connection, migrations: Migrations) -> str | None:
    """How far the database came. None: it has no tables of this line."""
    options = {"version_table": migrations.version_table}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def upgrade(connection: Connection, migrations: Migrations, revision: str = "head") -> None:
    """Bring the tables to a revision, the newest by default, inside the transaction of `connection`."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ONE_AT_A_TIME)
    try:
        command.upgrade(config_for(migrations, connection), revision)
    except CommandError as error:
        raise StoreUnavailable(
            f"cannot bring the database up to date: {error} (was it used by a newer Windlass?)"
        ) from error


def differences(connection: Connection, migrations: Migrations) -> list[Any]:
    """What the tables of the code have and the database lacks, or the other way round."""
    options = migrations.options() | {"compare_type": True}
    found = MigrationContext.configure(connection, opts=options)
    return list(compare_metadata(found, migrations.metadata))


def run_environment() -> None:
    """The body of each `env.py`: Alembic calls it, on the connection that `upgrade` was given."""
    migrations: Migrations = context.config.attributes["migrations"]
    context.configure(connection=context.config.attributes["connection"], **migrations.options())
    with context.begin_transaction():
        context.run_migrations()
