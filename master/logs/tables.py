"""The tables of the log store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Index, MetaData, Text
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

from master.store.migrate import Migrations
from master.store.sql.columns import BIG_ID, NAMING, Mapped

MINUTE_US = 60_000_000
"""Microseconds in a minute, by which lines are counted."""
METADATA = MetaData(naming_convention=NAMING)


class _LogTable(SQLModel, registry=registry(metadata=METADATA)):
    """Apart from the tables of the state: another database file, other migrations."""


class LogEntry(_LogTable, table=True):
    """A line. High volume: `timestamp` is microseconds since the epoch, which no driver has to convert."""

    __tablename__ = "log_entry"  # pyright: ignore

    __table_args__ = (Index("ix_log_entry_task_id", "task_id", "timestamp", "id"),)

    id: Mapped[int] = Field(sa_column=Column(BIG_ID, primary_key=True, autoincrement=False))
    task_id: Mapped[str]
    timestamp: Mapped[int] = Field(sa_column=Column(BigInteger, nullable=False))
    allocation_id: Mapped[str | None] = Field(default=None)
    agent_id: Mapped[str | None] = Field(default=None)
    container_id: Mapped[str | None] = Field(default=None)
    rank_id: Mapped[int | None] = Field(default=None)
    level: Mapped[str | None] = Field(default=None)
    stdtype: Mapped[str | None] = Field(default=None)
    source: Mapped[str | None] = Field(default=None)
    log: Mapped[str] = Field(sa_column=Column(Text, nullable=False))


class LogOffset(_LogTable, table=True):
    """How far the output of a container is stored, committed together with the lines."""

    __tablename__ = "log_offset"  # pyright: ignore

    container_id: Mapped[str] = Field(primary_key=True)
    task_id: Mapped[str] = Field(index=True)
    next_offset: Mapped[int] = Field(sa_column=Column(BigInteger, nullable=False))


class LogCount(_LogTable, table=True):
    """How many lines of a task have a timestamp in a minute, committed together with the lines."""

    __tablename__ = "log_count"  # pyright: ignore

    task_id: Mapped[str] = Field(primary_key=True)
    minute: Mapped[int] = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    """Since the epoch."""
    lines: Mapped[int] = Field(sa_column=Column(BigInteger, nullable=False))


class LogMeta(_LogTable, table=True):
    """Which cluster the logs are of: `cluster_id`; up to which id lines are not counted: `uncounted_to`."""

    __tablename__ = "log_meta"  # pyright: ignore

    key: Mapped[str] = Field(primary_key=True)
    value: Mapped[str]


LOGS = Migrations(
    Path(__file__).parent / "migrations",
    METADATA,
    "alembic_version_logs",
    lambda name: name.startswith("log_"),
)
