"""All tables. These are rows, not API models: they accept what they are given, wire models check.

Wire enums (STATE_...) are not stored: `state` columns hold the words of `master.experiments.states`.
Integer ids are handed out in memory by the leader (`Store.next_id`) so that a pure step can name what it makes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, String, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from master.store import documents
from master.store.documents import document_column
from master.store.sql.columns import BIG_ID, NAMING, Mapped, json_column, time_column
from windlass.base.formats.json_types import JsonObject

SQLModel.metadata.naming_convention = NAMING


class Leader(SQLModel, table=True):
    """One row: who leads. Every commit checks `epoch`."""

    id: Mapped[int] = Field(primary_key=True)
    epoch: Mapped[int]
    master_id: Mapped[str]
    taken_at: Mapped[datetime] = time_column(nullable=False)
    holder: Mapped[str] = Field(default="")
    """For people: process, host, data folder."""
    place: Mapped[str] = Field(default="")
    """The data folder that it has locked, as no other has it."""
    expires_at: Mapped[datetime | None] = time_column()
    """By the database's clock. None: written by a release that did not renew it."""


class Meta(SQLModel, table=True):
    """Facts about the cluster that never change or change rarely: cluster_id, cluster secret hash, ..."""

    key: Mapped[str] = Field(primary_key=True)
    value: Mapped[Any] = json_column(nullable=True)


class User(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("username"),)

    id: Mapped[int] = Field(primary_key=True)
    username: Mapped[str]
    display_name: Mapped[str] = Field(default="")
    password_hash: Mapped[str] = Field(default="")
    """argon2 of what the client sends; empty string: the empty password (allowed on loopback only)."""
    admin: Mapped[bool] = Field(default=False)
    active: Mapped[bool] = Field(default=True)
    remote: Mapped[bool] = Field(default=False)
    agent_user_group: Mapped[Any] = json_column(nullable=True)
    created_at: Mapped[datetime] = time_column(nullable=False)
    modified_at: Mapped[datetime] = time_column(nullable=False)
    last_auth_at: Mapped[datetime | None] = time_column()


class UserSession(SQLModel, table=True):
    """A login. Only the hash of the token is kept."""

    __table_args__ = (UniqueConstraint("token_hash"),)

    id: Mapped[int] = Field(primary_key=True)
    user_id: Mapped[int] = Field(foreign_key="user.id", index=True)
    token_hash: Mapped[str]
    created_at: Mapped[datetime] = time_column(nullable=False)
    expires_at: Mapped[datetime] = time_column(nullable=False)
    address: Mapped[str] = Field(default="")
    """Where the login came from; empty: not known."""


class AccessToken(SQLModel, table=True):
    """What a program of a user logs in with. Only the hash of the token is kept."""

    __tablename__ = "access_token"  # pyright: ignore
    __table_args__ = (UniqueConstraint("token_hash"),)

    id: Mapped[int] = Field(primary_key=True)
    user_id: Mapped[int] = Field(foreign_key="user.id", index=True)
    token_hash: Mapped[str]
    description: Mapped[str] = Field(default="")
    created_at: Mapped[datetime] = time_column(nullable=False)
    created_by: Mapped[int]
    expires_at: Mapped[datetime] = time_column(nullable=False)
    revoked_at: Mapped[datetime | None] = time_column()


class UserSetting(SQLModel, table=True):
    """What pages remember of a user."""

    __tablename__ = "user_setting"  # pyright: ignore

    user_id: Mapped[int] = Field(primary_key=True, foreign_key="user.id")
    storage_path: Mapped[str] = Field(primary_key=True)
    key: Mapped[str] = Field(primary_key=True)
    value: Mapped[str | None] = Field(default=None)


class SavedView(SQLModel, table=True):
    """What a user wants to see of a list: which rows, in which order, with which columns."""

    __tablename__ = "saved_view"  # pyright: ignore

    owner_id: Mapped[int] = Field(primary_key=True, foreign_key="user.id")
    list: Mapped[str] = Field(primary_key=True)
    name: Mapped[str] = Field(primary_key=True)
    filter: Mapped[str]
    """As it was written: `me` and ages are of whoever looks, and when."""
    sort: Mapped[str]
    columns: Mapped[str | None] = Field(default=None)
    """Each on a line of its own; None: the usual ones."""
    archived: Mapped[bool]
    project_id: Mapped[int | None] = Field(default=None, foreign_key="project.id", index=True)
    """Shown to all who see this project, or this workspace."""
    workspace_id: Mapped[int | None] = Field(default=None, foreign_key="workspace.id", index=True)
    modified_at: Mapped[datetime] = time_column(nullable=False)


def name_key(name: str) -> str:
    """By which names are the same, whatever the case of their letters; the same on every database."""
    return name.casefold()


def _key_of_name(context: Any) -> str:
    """`context`: SQLAlchemy's, of the row that is inserted."""
    return name_key(context.get_current_parameters()["name"])


def _name_key_column() -> Any:
    return Field(sa_column=Column(String, nullable=False, default=_key_of_name))


class Workspace(SQLModel, table=True):
    __table_args__ = (
        UniqueConstraint("name"),
        Index("uq_workspace_name_key", "name_key", unique=True),
    )

    id: Mapped[int] = Field(primary_key=True)
    name: Mapped[str]
    name_key: Mapped[str] = _name_key_column()
    """`name_key` of its name."""
    user_id: Mapped[int]
    immutable: Mapped[bool] = Field(default=False)
    archived: Mapped[bool] = Field(default=False)
    state: Mapped[str] = Field(default="")
    """DELETING or DELETE_FAILED; else empty."""
    error: Mapped[str] = Field(default="")
    """Why its deletion failed."""
    agent_user_group: Mapped[Any] = json_column(nullable=True)
    """As `master.allocations.identities.WorkspaceUser` reads it: any of its fields may be missing."""
    default_compute_pool: Mapped[str | None] = Field(default=None)
    """None, as in the next: the cluster's."""
    default_aux_pool: Mapped[str | None] = Field(default=None)
    checkpoint_storage: Mapped[Any] = json_column(nullable=True)
    """The section, with its secrets; None: the cluster's."""


class WorkspacePin(SQLModel, table=True):
    """A user wants to find a workspace quickly."""

    __tablename__ = "workspace_pin"  # pyright: ignore

    user_id: Mapped[int] = Field(primary_key=True, foreign_key="user.id")
    workspace_id: Mapped[int] = Field(primary_key=True, foreign_key="workspace.id")
    pinned_at: Mapped[datetime] = time_column(nullable=False)


class UserGroup(SQLModel, table=True):
    __tablename__ = "user_group"  # pyright: ignore
    __table_args__ = (UniqueConstraint("name"),)

    id: Mapped[int] = Field(primary_key=True)
    name: Mapped[str]


class UserGroupMember(SQLModel, table=True):
    __tablename__ = "user_group_member"  # pyright: ignore

    group_id: Mapped[int] = Field(primary_key=True, foreign_key="user_group.id")
    user_id: Mapped[int] = Field(primary_key=True, foreign_key="user.id")


class RoleAssignment(SQLModel, table=True):
    """A user or a group holds a role, in a workspace or in the cluster."""

    __tablename__ = "role_assignment"  # pyright: ignore

    id: Mapped[int] = Field(primary_key=True)
    role_id: Mapped[int]
    """Of `master.core.roles.catalogue`, or of master.yaml."""
    workspace_id: Mapped[int | None] = Field(default=None, foreign_key="workspace.id", index=True)
    """None: the cluster."""
    user_id: Mapped[int | None] = Field(default=None, foreign_key="user.id")
    group_id: Mapped[int | None] = Field(default=None, foreign_key="user_group.id")
    """This or `user_id` is None."""


class ProjectVisit(SQLModel, table=True):
    """When a user looked at a project last."""

    __tablename__ = "project_visit"  # pyright: ignore

    user_id: Mapped[int] = Field(primary_key=True, foreign_key="user.id")
    project_id: Mapped[int] = Field(
        primary_key=True, foreign_key="project.id", ondelete="CASCADE", index=True
    )
    visited_at: Mapped[datetime] = time_column(nullable=False)


class Project(SQLModel, table=True):
    __table_args__ = (Index("uq_project_workspace_id", "workspace_id", "name_key", unique=True),)

    id: Mapped[int] = Field(primary_key=True)
    workspace_id: Mapped[int] = Field(foreign_key="workspace.id", index=True)
    name: Mapped[str]
    name_key: Mapped[str] = _name_key_column()
    """`name_key` of its name."""
    key: Mapped[str] = Field(default="")
    """What the local ids of its runs begin with."""
    created_at: Mapped[datetime | None] = time_column()
    """None: by a release that did not note it."""
    last_run: Mapped[int] = Field(default=0)
    """The local number that was given last: none is given twice."""
    description: Mapped[str] = Field(default="")
    notes: Mapped[list[JsonObject]] = Field(
        sa_column=Column(JSON(none_as_null=True), nullable=False, default=list)
    )
    """[{"name", "contents"}]"""
    user_id: Mapped[int]
    immutable: Mapped[bool] = Field(default=False)
    archived: Mapped[bool] = Field(default=False)
    state: Mapped[str] = Field(default="")
    """DELETING or DELETE_FAILED; else empty."""
    error: Mapped[str] = Field(default="")
    """Why its deletion failed."""


class Change(SQLModel, table=True):
    """The newest change of each entity that live views show (`master.store.sql.changes`)."""

    __table_args__ = (
        Index("uq_change_seq", "seq", unique=True),
        Index("ix_change_deleted", "deleted", "seq"),
    )

    kind: Mapped[str] = Field(primary_key=True)
    entity_id: Mapped[int] = Field(primary_key=True)
    seq: Mapped[int] = Field(sa_type=BigInteger)
    """Grows with every change, of any kind."""
    deleted: Mapped[bool]


class ProjectKey(SQLModel, table=True):
    """Each key that a project has or had. The row stays when the project goes: no other project gets its key."""

    __tablename__ = "project_key"  # pyright: ignore

    key: Mapped[str] = Field(primary_key=True)
    project_id: Mapped[int] = Field(index=True)


class Template(SQLModel, table=True):
    """A configuration that others may name, to lie under theirs."""

    __table_args__ = (UniqueConstraint("name"),)

    id: Mapped[int] = Field(primary_key=True)
    name: Mapped[str]
    workspace_id: Mapped[int] = Field(foreign_key="workspace.id", index=True)
    owner_id: Mapped[int] = Field(foreign_key="user.id")
    config: Mapped[JsonObject] = json_column()
    """As it was written."""
    created_at: Mapped[datetime] = time_column(nullable=False)
    modified_at: Mapped[datetime] = time_column(nullable=False)


class PoolBinding(SQLModel, table=True):
    """A pool is kept for this workspace, and for others that it is bound to."""

    __tablename__ = "pool_binding"  # pyright: ignore

    pool: Mapped[str] = Field(primary_key=True)
    workspace_id: Mapped[int] = Field(primary_key=True, foreign_key="workspace.id", index=True)


class ConfigPolicy(SQLModel, table=True):
    """What an administrator fixes for the work of one kind, in the cluster or in one workspace."""

    id: Mapped[int] = Field(primary_key=True)
    workspace_id: Mapped[int | None] = Field(default=None, foreign_key="workspace.id", index=True)
    """None: the whole cluster's."""
    workload: Mapped[str]
    document: Mapped[JsonObject] = json_column()
    """As it was written."""
    changed_by: Mapped[int] = Field(foreign_key="user.id")
    changed_at: Mapped[datetime] = time_column(nullable=False)


class Webhook(SQLModel, table=True):
    id: Mapped[int] = Field(primary_key=True)
    name: Mapped[str]
    url: Mapped[str]
    type: Mapped[str]
    mode: Mapped[str]
    workspace_id: Mapped[int | None] = Field(default=None, foreign_key="workspace.id", index=True)
    """None: the whole cluster's."""
    owner_id: Mapped[int] = Field(foreign_key="user.id")
    created_at: Mapped[datetime] = time_column(nullable=False)


class WebhookTrigger(SQLModel, table=True):
    __tablename__ = "webhook_trigger"  # pyright: ignore

    id: Mapped[int] = Field(primary_key=True)
    webhook_id: Mapped[int] = Field(foreign_key="webhook.id", index=True)
    type: Mapped[str]
    condition: Mapped[JsonObject] = json_column()


class WebhookEvent(SQLModel, table=True):
    """One call that is to be made, or was. Written together with what it tells of."""

    __tablename__ = "webhook_event"  # pyright: ignore
    __table_args__ = (
        Index(
            "ix_webhook_event_waiting",
            "webhook_id",
            "id",
            sqlite_where=text("next_try IS NOT NULL"),
            postgresql_where=text("next_try IS NOT NULL"),
        ),
        Index("ix_webhook_event_webhook_id", "webhook_id", "id"),
        Index("ix_webhook_event_once", "once", unique=True),
    )

    id: Mapped[int] = Field(primary_key=True)
    webhook_id: Mapped[int]
    """Perhaps of one that was deleted meanwhile: no change of an experiment fails for that."""
    event_id: Mapped[str]
    """Shown to the receiver, the same in every attempt."""
    type: Mapped[str]
    condition: Mapped[JsonObject] = json_column()
    facts: Mapped[JsonObject] = json_column()
    """By the keys of the payload's `event_data`."""
    once: Mapped[str | None] = Field(default=None)
    """Of an event that is told once: its trigger and its task."""
    created_at: Mapped[datetime] = time_column(nullable=False)
    attempts: Mapped[int] = Field(default=0)
    last_result: Mapped[str] = Field(default="")
    """In words."""
    next_try: Mapped[datetime | None] = time_column()
    """None: it is over."""
    delivered_at: Mapped[datetime | None] = time_column()


class Model(SQLModel, table=True):
    """Of the model registry."""

    __table_args__ = (UniqueConstraint("name"),)

    id: Mapped[int] = Field(primary_key=True)
    name: Mapped[str]
    workspace_id: Mapped[int] = Field(foreign_key="workspace.id", index=True)
    owner_id: Mapped[int] = Field(foreign_key="user.id")
    description: Mapped[str] = Field(default="")
    notes: Mapped[str] = Field(default="")
    labels: Mapped[list[str]] = json_column()
    meta: Mapped[JsonObject] = json_column()
    archived: Mapped[bool] = Field(default=False)
    last_version: Mapped[int] = Field(default=0)
    """The number that was given last: none is given twice."""
    created_at: Mapped[datetime] = time_column(nullable=False)
    modified_at: Mapped[datetime] = time_column(nullable=False)
    """Changes with its versions, too."""


class ModelVersion(SQLModel, table=True):
    """A checkpoint in the registry. Its row stays as long as this one: its files are not deleted."""

    __tablename__ = "model_version"  # pyright: ignore
    __table_args__ = (UniqueConstraint("model_id", "version"),)

    id: Mapped[int] = Field(primary_key=True)
    model_id: Mapped[int] = Field(foreign_key="model.id")
    version: Mapped[int]
    checkpoint_uuid: Mapped[str] = Field(foreign_key="checkpoint.uuid", index=True)
    owner_id: Mapped[int] = Field(foreign_key="user.id")
    name: Mapped[str] = Field(default="")
    comment: Mapped[str] = Field(default="")
    notes: Mapped[str] = Field(default="")
    labels: Mapped[list[str]] = json_column()
    meta: Mapped[JsonObject] = json_column()
    created_at: Mapped[datetime] = time_column(nullable=False)
    modified_at: Mapped[datetime] = time_column(nullable=False)


class TrialSource(SQLModel, table=True):
    """A trial says which checkpoint it uses, perhaps as a version of a model."""

    __tablename__ = "trial_source"  # pyright: ignore
    __table_args__ = (Index("ix_trial_source_model_id", "model_id", "model_version"),)

    trial_id: Mapped[int] = Field(primary_key=True, foreign_key="trial.id")
    checkpoint_uuid: Mapped[str] = Field(primary_key=True, index=True)
    kind: Mapped[str]
    """INFERENCE or FINE_TUNING."""
    model_id: Mapped[int | None] = Field(default=None)
    model_version: Mapped[int | None] = Field(default=None)


class Experiment(SQLModel, table=True):
    id: Mapped[int] = Field(primary_key=True)
    job_id: Mapped[str] = Field(index=True)
    owner_id: Mapped[int] = Field(foreign_key="user.id", index=True)
    project_id: Mapped[int] = Field(default=1, foreign_key="project.id", index=True)
    parent_id: Mapped[int | None] = Field(default=None)
    state: Mapped[str] = Field(index=True)
    name: Mapped[str]
    description: Mapped[str] = Field(default="")
    labels: Mapped[list[str]] = json_column()
    notes: Mapped[str] = Field(default="")
    archived: Mapped[bool] = Field(default=False)
    unmanaged: Mapped[bool] = Field(default=False)
    external_id: Mapped[str | None] = Field(default=None, index=True, unique=True)
    """What its processes outside of the cluster call it."""
    config: Mapped[JsonObject] = document_column(documents.EXPERIMENT_CONFIG)
    """The active config: merged, every default filled in."""
    original_config: Mapped[str] = Field(
        default="", sa_column=Column(Text, nullable=False, default="")
    )
    config_origins: Mapped[list[JsonObject] | None] = document_column(
        documents.CONFIG_ORIGINS, nullable=True
    )
    """Which values of the config are no defaults of Windlass, and where each comes from: path, source, name.

    None: it was submitted before they were kept.
    """
    template: Mapped[str] = Field(default="")
    """The name of the one that it was submitted with; empty: without."""
    model_definition: Mapped[str | None] = Field(default=None)
    """Blob id (SHA-256) of the gzipped tar."""
    model_files: Mapped[list[JsonObject]] = document_column(documents.MODEL_FILES)
    """The listing: path, size, mode, mtime."""
    resource_pool: Mapped[str] = Field(default="")
    queue_position: Mapped[str | None] = Field(default=None)
    """Where its job was moved to in the queue: an exact decimal on the scale of seconds since the epoch."""
    progress: Mapped[float] = Field(default=0.0)
    error: Mapped[str] = Field(default="")
    """Why it ended in ERROR, for people."""
    created_at: Mapped[datetime] = time_column(nullable=False, index=True)
    ended_at: Mapped[datetime | None] = time_column()


class Command(SQLModel, table=True):
    """An interactive task of any kind: one task, one run."""

    id: Mapped[str] = Field(primary_key=True)
    """Also the id of its task."""
    type: Mapped[str]
    """Its row of the table of kinds, `master.tasks.kinds`."""
    job_id: Mapped[str] = Field(index=True)
    owner_id: Mapped[int] = Field(foreign_key="user.id", index=True)
    workspace_id: Mapped[int] = Field(default=1, foreign_key="workspace.id", index=True)
    state: Mapped[str] = Field(index=True)
    description: Mapped[str] = Field(default="")
    config: Mapped[JsonObject] = document_column(documents.TASK_CONFIG)
    """Complete: merged, every default filled in."""
    context: Mapped[str | None] = Field(default=None)
    """Blob id of the gzipped tar of its files."""
    details: Mapped[JsonObject | None] = document_column(documents.TASK_DETAILS, nullable=True)
    """What was made or found out at its launch, by its kind."""
    resource_pool: Mapped[str] = Field(default="")
    queue_position: Mapped[str | None] = Field(default=None)
    active_at: Mapped[datetime | None] = time_column()
    """Its last activity, from when it runs; written now and then."""
    ending: Mapped[str | None] = Field(default=None)
    """COMPLETED, CANCELED or ERROR; null until it is over."""
    exit_status: Mapped[str] = Field(default="")
    created_at: Mapped[datetime] = time_column(nullable=False, index=True)
    ended_at: Mapped[datetime | None] = time_column()


class ShownExperiment(SQLModel, table=True):
    """A TensorBoard shows an experiment, or runs of it."""

    __tablename__ = "shown_experiment"  # pyright: ignore
    task_id: Mapped[str] = Field(primary_key=True, foreign_key="command.id")
    experiment_id: Mapped[int] = Field(primary_key=True, index=True)


class SearcherEvent(SQLModel, table=True):
    """The log of a search: `seq` counts from 1 per experiment. Actions are stored for replay checks."""

    experiment_id: Mapped[int] = Field(primary_key=True, foreign_key="experiment.id")
    seq: Mapped[int] = Field(primary_key=True)
    event: Mapped[JsonObject] = document_column(documents.SEARCHER_EVENT)
    actions: Mapped[list[JsonObject]] = document_column(documents.SEARCHER_ACTIONS)
    at: Mapped[datetime] = time_column(nullable=False)


class SearcherSnapshot(SQLModel, table=True):
    """The state after event `seq`."""

    experiment_id: Mapped[int] = Field(primary_key=True, foreign_key="experiment.id")
    seq: Mapped[int]
    state: Mapped[JsonObject] = document_column(documents.SEARCHER_SNAPSHOT)


class Trial(SQLModel, table=True):
    __table_args__ = (
        UniqueConstraint("experiment_id", "request_id"),
        Index("ix_trial_external_id", "experiment_id", "external_id", unique=True),
    )

    id: Mapped[int] = Field(primary_key=True)
    experiment_id: Mapped[int] = Field(foreign_key="experiment.id", index=True)
    request_id: Mapped[str]
    local_number: Mapped[int] = Field(default=0)
    """Its number in the project of its experiment."""
    archived: Mapped[bool] = Field(default=False)
    """Its own flag: it reads as archived with its experiment, too."""
    deletion: Mapped[str] = Field(default="")
    """DELETING or DELETE_FAILED: its experiment goes on without it. Else empty."""
    deletion_error: Mapped[str] = Field(default="")
    """Why its deletion failed."""
    task_id: Mapped[str] = Field(index=True)
    state: Mapped[str]
    hparams: Mapped[JsonObject] = json_column()
    seed: Mapped[int] = Field(sa_column=Column(BigInteger, nullable=False))
    restarts: Mapped[int] = Field(default=0)
    aborts: Mapped[int] = Field(default=0)
    lost_runs: Mapped[int] = Field(default=0)
    """Since the last new checkpoint."""
    checkpoint_run_id: Mapped[int] = Field(default=0)
    """The run that made the newest checkpoint; 0: none, or it is not known."""
    run_id: Mapped[int] = Field(default=0)
    """Number of the current or last run (allocation); 0 before the first."""
    progress: Mapped[float] = Field(default=0.0)
    searcher_stopped: Mapped[bool] = Field(default=False)
    early_exit: Mapped[str | None] = Field(default=None)
    early_exit_at: Mapped[datetime | None] = time_column()
    error: Mapped[str] = Field(default="")
    log_policy: Mapped[str] = Field(default="")
    """The name of the log policy that matched last."""
    retries_cancelled: Mapped[bool] = Field(default=False)
    avoids: Mapped[list[str]] = json_column()
    """Agents and nodes that log policies excluded."""
    warm_start_checkpoint: Mapped[str | None] = Field(default=None)
    latest_checkpoint: Mapped[str | None] = Field(default=None)
    latest_checkpoint_steps: Mapped[int] = Field(default=0)
    steps_completed: Mapped[int] = Field(default=0)
    """Largest steps of any live metric: totalBatchesProcessed."""
    best_validation_id: Mapped[int | None] = Field(default=None)
    latest_validation_id: Mapped[int | None] = Field(default=None)
    searcher_metric: Mapped[float | None] = Field(default=None)
    """The searcher's metric of the best validation, as reported (not negated)."""
    latest_searcher_metric: Mapped[float | None] = Field(default=None)
    summary_metrics: Mapped[JsonObject] = document_column(documents.METRIC_SUMMARY)
    metric_groups: Mapped[JsonObject] = document_column(documents.METRIC_GROUPS)
    """The newest report of each group (`experiments.state.GroupMetrics`): to recognise repeats and roll-backs."""
    runner_state: Mapped[str] = Field(default="")
    run_metadata: Mapped[Any] = json_column(nullable=True)
    created_at: Mapped[datetime] = time_column(nullable=False)
    ended_at: Mapped[datetime | None] = time_column()
    last_activity: Mapped[datetime | None] = time_column()
    """When the process of an unmanaged trial was last heard of."""
    external_id: Mapped[str | None] = Field(default=None)
    """What the process of an unmanaged trial calls it."""


class Task(SQLModel, table=True):
    id: Mapped[str] = Field(primary_key=True)
    type: Mapped[str]
    job_id: Mapped[str] = Field(index=True)
    owner_id: Mapped[int]
    experiment_id: Mapped[int | None] = Field(default=None, index=True)
    trial_id: Mapped[int | None] = Field(default=None, index=True)
    created_at: Mapped[datetime] = time_column(nullable=False)
    ended_at: Mapped[datetime | None] = time_column(index=True)
    log_retention_days: Mapped[int | None] = Field(default=None)
    """How long its log is kept after its end; -1: for ever; null: as the cluster says."""
    logs_removed_at: Mapped[datetime | None] = time_column()
    """When its log was deleted because its time was over."""


class Allocation(SQLModel, table=True):
    """One run of one task on some slots."""

    id: Mapped[str] = Field(primary_key=True)
    task_id: Mapped[str] = Field(foreign_key="task.id", index=True)
    run_id: Mapped[int]
    state: Mapped[str]
    pool: Mapped[str]
    """Its own."""
    granted_pool: Mapped[str | None] = Field(default=None)
    """Where its slots are, if it fell back to another pool; null: in its own."""
    slots: Mapped[int]
    token_hash: Mapped[str | None] = Field(default=None, index=True)
    """Null once the allocation has ended or another run replaced it: its writes are refused."""
    is_open: Mapped[bool] = Field(default=True, index=True)
    """Not terminated: to be restored after a restart."""
    document: Mapped[JsonObject] = document_column(documents.ALLOCATION)
    """`master.allocations.machine.AllocationState` as JSON: containers, ports, preemption, exits."""
    exit_reason: Mapped[str] = Field(default="")
    exit_error: Mapped[str] = Field(default="")
    status_code: Mapped[int | None] = Field(default=None)
    requested_at: Mapped[datetime] = time_column(nullable=False)
    started_at: Mapped[datetime | None] = time_column(index=True)
    pulled_at: Mapped[datetime | None] = time_column()
    """When its images were there; null: none had to be pulled, or one is still."""
    ended_at: Mapped[datetime | None] = time_column(index=True)


class AllocationAccelerator(SQLModel, table=True):
    allocation_id: Mapped[str] = Field(primary_key=True, foreign_key="allocation.id")
    container_id: Mapped[str] = Field(primary_key=True)
    node_name: Mapped[str]
    accelerator_type: Mapped[str]
    accelerator_uuids: Mapped[list[str]] = json_column()


class Metric(SQLModel, table=True):
    """One report. High volume: written in batches with Core."""

    __table_args__ = (Index("ix_metric_trial_group", "trial_id", "group", "steps"),)

    id: Mapped[int] = Field(sa_column=Column(BIG_ID, primary_key=True, autoincrement=False))
    trial_id: Mapped[int]
    run_id: Mapped[int]
    group: Mapped[str]
    steps: Mapped[int | None] = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """Null for profiler groups."""
    metrics: Mapped[JsonObject] = document_column(documents.METRIC_REPORT)
    """{"avg_metrics": {...}, "batch_metrics": null | [...]}"""
    archived: Mapped[bool] = Field(default=False)
    reported_at: Mapped[datetime] = time_column(nullable=False)


class Checkpoint(SQLModel, table=True):
    uuid: Mapped[str] = Field(primary_key=True)
    task_id: Mapped[str] = Field(index=True)
    allocation_id: Mapped[str | None] = Field(default=None)
    trial_id: Mapped[int | None] = Field(default=None, index=True)
    experiment_id: Mapped[int | None] = Field(default=None, index=True)
    run_id: Mapped[int] = Field(default=0)
    state: Mapped[str]
    steps: Mapped[int] = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    resources: Mapped[dict[str, int]] = json_column()
    meta: Mapped[JsonObject] = json_column()
    size: Mapped[int] = Field(default=0, sa_column=Column(BigInteger, nullable=False, default=0))
    storage_id: Mapped[int | None] = Field(default=None)
    reported_at: Mapped[datetime] = time_column(nullable=False)


class StorageBackend(SQLModel, table=True):
    """A checkpoint storage config, deduplicated by its hash."""

    __table_args__ = (UniqueConstraint("config_hash"),)

    id: Mapped[int] = Field(primary_key=True)
    config_hash: Mapped[str]
    config: Mapped[JsonObject] = document_column(documents.STORAGE_CONFIG)


class CheckpointGc(SQLModel, table=True):
    """Files to delete from checkpoint storage, written down before any is. The row goes when all of it is done."""

    __tablename__ = "checkpoint_gc"  # pyright: ignore
    task_id: Mapped[str] = Field(primary_key=True)
    """Of the task whose log tells of it: `<experiment id>.<uuid>`."""
    experiment_id: Mapped[int] = Field(index=True)
    kind: Mapped[str]
    """`master.experiments.lifecycle.garbage.GcKind`."""
    trial_id: Mapped[int | None] = Field(default=None)
    """The trial that goes, if it is about one."""
    checkpoints: Mapped[list[str]] = json_column()
    """Uuids, if it is about some."""
    globs: Mapped[list[str]] = json_column()
    """Which of their files."""
    asked_by: Mapped[int]
    """User id."""
    asked_at: Mapped[datetime] = time_column(nullable=False)
    attempts: Mapped[int] = Field(default=0)
    seen: Mapped[bool] = Field(default=False)
    """The master saw these files in its own file system: what it does not see there is deleted."""
    error: Mapped[str] = Field(default="")
    """Of the last attempt, for people."""


class Agent(SQLModel, table=True):
    id: Mapped[str] = Field(primary_key=True)
    pool: Mapped[str]
    slots: Mapped[int]
    enabled: Mapped[bool] = Field(default=True)
    draining: Mapped[bool] = Field(default=False)
    slot_service: Mapped[dict[str, str]] = document_column(documents.SLOT_SERVICE)
    """Slots that an operator took out of service: slot number -> "disabled" or "draining"."""
    instance_id: Mapped[str | None] = Field(default=None)
    first_seen: Mapped[datetime] = time_column(nullable=False)
    credential_hash: Mapped[str | None] = Field(default=None)
    """Of the agent's own credential. None: an agent before 0.2 that has shown none."""


class JoinTokenUse(SQLModel, table=True):
    """An agent that has spent a join token."""

    __tablename__ = "join_token_use"  # pyright: ignore
    token_id: Mapped[str] = Field(primary_key=True)
    agent_id: Mapped[str] = Field(primary_key=True)
    credential_hash: Mapped[str]
    expires: Mapped[datetime | None] = time_column()
    """Of the token; the row goes some time after it."""
    used_at: Mapped[datetime | None] = time_column()
    """None: by a release that did not note it (0.1)."""


class JoinToken(SQLModel, table=True):
    """A join token that an administrator made. Only its hash is kept."""

    __tablename__ = "join_token"  # pyright: ignore
    id: Mapped[str] = Field(primary_key=True)
    token_hash: Mapped[str]
    pool: Mapped[str]
    description: Mapped[str] = Field(default="")
    names: Mapped[list[str]] = json_column()
    """The agents that may join with it; empty: any new one."""
    agents: Mapped[int | None] = Field(default=None)
    """How many may; None: any number."""
    created_at: Mapped[datetime] = time_column(nullable=False)
    created_by: Mapped[str] = Field(default="")
    expires: Mapped[datetime | None] = time_column()
    revoked_at: Mapped[datetime | None] = time_column()


class FleetIntent(SQLModel, table=True):
    """A launch we decided, written before the call."""

    id: Mapped[str] = Field(primary_key=True)
    document: Mapped[JsonObject] = document_column(documents.FLEET_INTENT)
    finished: Mapped[bool] = Field(default=False, index=True)


class FleetLesson(SQLModel, table=True):
    """What was learned of one key of the capacity memory: refusals, boots."""

    key: Mapped[str] = Field(primary_key=True)
    document: Mapped[JsonObject] = document_column(documents.FLEET_LESSON)


class FleetBake(SQLModel, table=True):
    """A machine that becomes an image: under way, or one of the newest that are over."""

    id: Mapped[str] = Field(primary_key=True)
    document: Mapped[JsonObject] = document_column(documents.FLEET_BAKE)


class FleetDecision(SQLModel, table=True):
    """An entry of the planner's journal."""

    __table_args__ = (Index("ix_fleetdecision_pool_last_at", "pool", "last_at"),)

    id: Mapped[str] = Field(primary_key=True)
    pool: Mapped[str]
    kind: Mapped[str]
    first_at: Mapped[float]
    """Seconds since the epoch."""
    last_at: Mapped[float] = Field(index=True)
    open: Mapped[bool] = Field(default=False, index=True)
    """More may be added to it."""
    document: Mapped[JsonObject] = document_column(documents.FLEET_DECISION)


class FleetDecisionSubject(SQLModel, table=True):
    """By which machines and jobs an entry of the journal is found."""

    subject: Mapped[str] = Field(primary_key=True)
    decision_id: Mapped[str] = Field(primary_key=True, index=True)


class FleetInstance(SQLModel, table=True):
    id: Mapped[str] = Field(primary_key=True)
    pool: Mapped[str] = Field(index=True)
    gone: Mapped[bool] = Field(default=False, index=True)
    document: Mapped[JsonObject] = document_column(documents.FLEET_INSTANCE)
    booked_until: Mapped[float | None] = Field(default=None)
    """Seconds since the epoch: what it cost up to then is in `cost`. The row goes when it is gone and all of it is."""


class BatchLease(SQLModel, table=True):
    """A batch job that we decided to submit, written before the call. It stays when it is over."""

    id: Mapped[str] = Field(primary_key=True)
    """The name of the job."""
    allocation_id: Mapped[str] = Field(index=True)
    over: Mapped[bool] = Field(default=False, index=True)
    document: Mapped[JsonObject] = document_column(documents.BATCH_LEASE)


class Cost(SQLModel, table=True):
    """What one machine cost on one day, for one job and of one kind."""

    month: Mapped[str] = Field(primary_key=True)
    """A day, 2026-11-28, in UTC. 2026-11: of a month long past, or recorded before days were told apart."""
    pool: Mapped[str] = Field(primary_key=True)
    instance_id: Mapped[str] = Field(primary_key=True)
    """Of a month long past: a note that its machines were summed up."""
    job_id: Mapped[str] = Field(primary_key=True)
    """Empty: nobody's."""
    kind: Mapped[str] = Field(primary_key=True)
    """`provisioner.money.lifetimes.CostKind`."""
    user_id: Mapped[int | None] = Field(default=None)
    experiment_id: Mapped[int | None] = Field(default=None, index=True)
    usd: Mapped[float]
    hours: Mapped[float]
    """Of a machine."""


class Port(SQLModel, table=True):
    """Cluster-wide unique ports held by allocations."""

    port: Mapped[int] = Field(primary_key=True)
    allocation_id: Mapped[str] = Field(index=True)
