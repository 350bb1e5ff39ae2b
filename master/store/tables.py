"""All tables. These are rows, not API models: they accept what they are given, wire models check.

Wire enums (STATE_...) are not stored: `state` columns hold the words of `master.experiments.states`.
Integer ids are handed out in memory by the leader (`Store.next_id`) so that a pure step can name what it makes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, Text, UniqueConstraint
from sqlmodel import Field, SQLModel, UTCDateTime

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
SQLModel.metadata.naming_convention = NAMING

BIG_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite finds rows by an INTEGER primary key without a further index; its integers are big anyway."""


def json_column(*, nullable: bool = False) -> Any:
    return Field(sa_column=Column(JSON(none_as_null=True), nullable=nullable))


def time_column(*, nullable: bool = True, index: bool = False) -> Any:
    """An aware UTC time: naive values are refused, and what is read is aware on both databases."""
    default: dict[str, Any] = {"default": None} if nullable else {}
    return Field(sa_column=Column(UTCDateTime(), nullable=nullable, index=index), **default)


class Leader(SQLModel, table=True):
    """One row: who leads. Every commit checks `epoch`."""

    id: int = Field(primary_key=True)
    epoch: int
    master_id: str
    taken_at: datetime = time_column(nullable=False)


class Meta(SQLModel, table=True):
    """Facts about the cluster that never change or change rarely: cluster_id, cluster secret hash, ..."""

    key: str = Field(primary_key=True)
    value: Any = json_column(nullable=True)


class User(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("username"),)

    id: int = Field(primary_key=True)
    username: str
    display_name: str = ""
    password_hash: str = ""
    """argon2 of what the client sends; empty string: the empty password (allowed on loopback only)."""
    admin: bool = False
    active: bool = True
    remote: bool = False
    agent_user_group: Any = json_column(nullable=True)
    created_at: datetime = time_column(nullable=False)
    modified_at: datetime = time_column(nullable=False)
    last_auth_at: datetime | None = time_column()


class UserSession(SQLModel, table=True):
    """A login. Only the hash of the token is kept."""

    __table_args__ = (UniqueConstraint("token_hash"),)

    id: int = Field(primary_key=True)
    user_id: int = Field(foreign_key="user.id", index=True)
    token_hash: str
    created_at: datetime = time_column(nullable=False)
    expires_at: datetime = time_column(nullable=False)


class Workspace(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("name"),)

    id: int = Field(primary_key=True)
    name: str
    user_id: int
    immutable: bool = False
    archived: bool = False


class Project(SQLModel, table=True):
    id: int = Field(primary_key=True)
    workspace_id: int = Field(foreign_key="workspace.id")
    name: str
    description: str = ""
    user_id: int
    immutable: bool = False
    archived: bool = False


class Experiment(SQLModel, table=True):
    id: int = Field(primary_key=True)
    job_id: str = Field(index=True)
    owner_id: int = Field(foreign_key="user.id", index=True)
    project_id: int = Field(default=1, foreign_key="project.id")
    parent_id: int | None = None
    state: str = Field(index=True)
    name: str
    description: str = ""
    labels: list[str] = json_column()
    notes: str = ""
    archived: bool = False
    unmanaged: bool = False
    external_id: str | None = Field(default=None, index=True)
    config: dict[str, Any] = json_column()
    """The active config: merged, every default filled in."""
    original_config: str = Field(default="", sa_column=Column(Text, nullable=False, default=""))
    model_definition: str | None = None
    """Blob id (SHA-256) of the gzipped tar."""
    model_files: list[dict[str, Any]] = json_column()
    """The listing: path, size, mode, mtime."""
    resource_pool: str = ""
    queue_position: str | None = None
    """Where its job was moved to in the queue: an exact decimal on the scale of seconds since the epoch."""
    progress: float = 0.0
    error: str = ""
    """Why it ended in ERROR, for people."""
    created_at: datetime = time_column(nullable=False, index=True)
    ended_at: datetime | None = time_column()


class Command(SQLModel, table=True):
    """A command: one task, one run. The same columns will serve the other interactive tasks."""

    id: str = Field(primary_key=True)
    """Also the id of its task."""
    type: str
    """COMMAND"""
    job_id: str = Field(index=True)
    owner_id: int = Field(foreign_key="user.id", index=True)
    workspace_id: int = Field(default=1, foreign_key="workspace.id")
    state: str = Field(index=True)
    description: str = ""
    config: dict[str, Any] = json_column()
    """Complete: merged, every default filled in."""
    context: str | None = None
    """Blob id of the gzipped tar of its files."""
    resource_pool: str = ""
    queue_position: str | None = None
    exit_status: str = ""
    created_at: datetime = time_column(nullable=False, index=True)
    ended_at: datetime | None = time_column()


class SearcherEvent(SQLModel, table=True):
    """The log of a search: `seq` counts from 1 per experiment. Actions are stored for replay checks."""

    experiment_id: int = Field(primary_key=True, foreign_key="experiment.id")
    seq: int = Field(primary_key=True)
    event: dict[str, Any] = json_column()
    actions: list[dict[str, Any]] = json_column()
    at: datetime = time_column(nullable=False)


class SearcherSnapshot(SQLModel, table=True):
    """The state after event `seq`."""

    experiment_id: int = Field(primary_key=True, foreign_key="experiment.id")
    seq: int
    state: dict[str, Any] = json_column()


class Trial(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("experiment_id", "request_id"),)

    id: int = Field(primary_key=True)
    experiment_id: int = Field(foreign_key="experiment.id", index=True)
    request_id: str
    task_id: str = Field(index=True)
    state: str
    hparams: dict[str, Any] = json_column()
    seed: int = Field(sa_column=Column(BigInteger, nullable=False))
    restarts: int = 0
    aborts: int = 0
    run_id: int = 0
    """Number of the current or last run (allocation); 0 before the first."""
    progress: float = 0.0
    searcher_stopped: bool = False
    early_exit: str | None = None
    early_exit_at: datetime | None = time_column()
    error: str = ""
    warm_start_checkpoint: str | None = None
    latest_checkpoint: str | None = None
    latest_checkpoint_steps: int = 0
    steps_completed: int = 0
    """Largest steps of any live metric: totalBatchesProcessed."""
    best_validation_id: int | None = None
    latest_validation_id: int | None = None
    searcher_metric: float | None = None
    """The searcher's metric of the best validation, as reported (not negated)."""
    latest_searcher_metric: float | None = None
    summary_metrics: dict[str, Any] = json_column()
    metric_groups: dict[str, Any] = json_column()
    """The newest report of each group (`experiments.state.GroupMetrics`): to recognise repeats and roll-backs."""
    runner_state: str = ""
    run_metadata: Any = json_column(nullable=True)
    created_at: datetime = time_column(nullable=False)
    ended_at: datetime | None = time_column()
    last_activity: datetime | None = time_column()


class Task(SQLModel, table=True):
    id: str = Field(primary_key=True)
    type: str
    job_id: str = Field(index=True)
    owner_id: int
    experiment_id: int | None = Field(default=None, index=True)
    trial_id: int | None = Field(default=None, index=True)
    created_at: datetime = time_column(nullable=False)
    ended_at: datetime | None = time_column()


class Allocation(SQLModel, table=True):
    """One run of one task on some slots."""

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="task.id", index=True)
    run_id: int
    state: str
    pool: str
    slots: int
    token_hash: str | None = Field(default=None, index=True)
    """Null once the allocation has ended or another run replaced it: its writes are refused."""
    is_open: bool = Field(default=True, index=True)
    """Not terminated: to be restored after a restart."""
    document: dict[str, Any] = json_column()
    """`master.allocations.machine.AllocationState` as JSON: containers, ports, preemption, exits."""
    exit_reason: str = ""
    exit_error: str = ""
    status_code: int | None = None
    requested_at: datetime = time_column(nullable=False)
    started_at: datetime | None = time_column(index=True)
    ended_at: datetime | None = time_column()


class AllocationAccelerator(SQLModel, table=True):
    allocation_id: str = Field(primary_key=True, foreign_key="allocation.id")
    container_id: str = Field(primary_key=True)
    node_name: str
    accelerator_type: str
    accelerator_uuids: list[str] = json_column()


class Metric(SQLModel, table=True):
    """One report. High volume: written in batches with Core."""

    __table_args__ = (Index("ix_metric_trial_group", "trial_id", "group", "steps"),)

    id: int = Field(sa_column=Column(BIG_ID, primary_key=True, autoincrement=False))
    trial_id: int
    run_id: int
    group: str
    steps: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """Null for profiler groups."""
    metrics: dict[str, Any] = json_column()
    """{"avg_metrics": {...}, "batch_metrics": null | [...]}"""
    archived: bool = False
    reported_at: datetime = time_column(nullable=False)


class Checkpoint(SQLModel, table=True):
    uuid: str = Field(primary_key=True)
    task_id: str = Field(index=True)
    allocation_id: str | None = None
    trial_id: int | None = Field(default=None, index=True)
    experiment_id: int | None = Field(default=None, index=True)
    run_id: int = 0
    state: str
    steps: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    resources: dict[str, int] = json_column()
    meta: dict[str, Any] = json_column()
    size: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    storage_id: int | None = None
    reported_at: datetime = time_column(nullable=False)


class StorageBackend(SQLModel, table=True):
    """A checkpoint storage config, deduplicated by its hash."""

    __table_args__ = (UniqueConstraint("config_hash"),)

    id: int = Field(primary_key=True)
    config_hash: str
    config: dict[str, Any] = json_column()


class Agent(SQLModel, table=True):
    id: str = Field(primary_key=True)
    pool: str
    slots: int
    enabled: bool = True
    draining: bool = False
    slot_service: dict[str, str] = json_column()
    """Slots that an operator took out of service: slot number -> "disabled" or "draining"."""
    instance_id: str | None = None
    first_seen: datetime = time_column(nullable=False)


class FleetIntent(SQLModel, table=True):
    """A launch we decided, written before the call."""

    id: str = Field(primary_key=True)
    document: dict[str, Any] = json_column()
    finished: bool = Field(default=False, index=True)


class FleetInstance(SQLModel, table=True):
    id: str = Field(primary_key=True)
    pool: str = Field(index=True)
    gone: bool = Field(default=False, index=True)
    document: dict[str, Any] = json_column()


class Port(SQLModel, table=True):
    """Cluster-wide unique ports held by allocations."""

    port: int = Field(primary_key=True)
    allocation_id: str = Field(index=True)
