"""The two tables of the log store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text

from master.store.columns import BIG_ID, NAMING
from master.store.migrate import Migrations

METADATA = MetaData(naming_convention=NAMING)

LOG_ENTRY = Table(
    "log_entry",
    METADATA,
    Column("id", BIG_ID, primary_key=True, autoincrement=False),
    Column("task_id", String, nullable=False),
    Column("timestamp", BigInteger, nullable=False),
    Column("allocation_id", String),
    Column("agent_id", String),
    Column("container_id", String),
    Column("rank_id", Integer),
    Column("level", String),
    Column("stdtype", String),
    Column("source", String),
    Column("log", Text, nullable=False),
    Index("ix_log_entry_task_id", "task_id", "timestamp", "id"),
)
"""High volume: `timestamp` is microseconds since the epoch, which no driver has to convert."""

LOG_OFFSET = Table(
    "log_offset",
    METADATA,
    Column("container_id", String, primary_key=True),
    Column("task_id", String, nullable=False, index=True),
    Column("next_offset", BigInteger, nullable=False),
)
"""How far the output of each container is stored, committed together with the lines."""

LOGS = Migrations(
    Path(__file__).parent / "migrations",
    METADATA,
    "alembic_version_logs",
    lambda name: name.startswith("log_"),
)
