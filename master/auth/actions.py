"""What callers do, and what they do it to: each route names its action and finds its target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What somebody wants to do. As fine as the permissions of the published roles need it."""

    VIEW_CLUSTER = "view cluster"
    VIEW_USERS = "view users"
    VIEW_WORKSPACES = "view workspaces"
    VIEW_PROJECTS = "view projects"
    CREATE_WORKSPACE = "create workspace"
    UPDATE_WORKSPACE = "update workspace"
    """Its name, and whether it is archived."""
    DELETE_WORKSPACE = "delete workspace"
    PIN_WORKSPACE = "pin workspace"
    SET_AGENT_USER = "set agent user group on workspace"
    """Say as whom tasks of it run."""
    SET_WORKSPACE_STORAGE = "set checkpoint storage config on workspace"
    """And see its keys."""
    SET_DEFAULT_POOLS = "set default resource pool on workspace"
    BIND_NAMESPACES = "set workspace-namespace bindings"
    SET_QUOTAS = "set resource quotas"
    CREATE_PROJECT = "create project"
    UPDATE_PROJECT = "update project"
    DELETE_PROJECT = "delete project"
    MOVE_PROJECT = "move project"
    TAKE_PROJECT = "take project"
    """Into the workspace that it is moved to."""
    VIEW_EXPERIMENTS = "view experiments"
    VIEW_ARTIFACTS = "view experiment artifacts"
    """Trials, metrics, checkpoints, logs, model definitions."""
    VIEW_SECRETS = "view secrets of configurations"
    """Environment variables, registry passwords, storage keys; others see them masked."""
    VIEW_INTERACTIVE = "view interactive tasks"
    VIEW_JOBS = "view jobs"
    VIEW_MASTER_CONFIG = "view master config"
    VIEW_MASTER_LOGS = "view master logs"
    CREATE_EXPERIMENT = "create experiment"
    PREVIEW_EXPERIMENT = "preview experiment"
    PREVIEW_SEARCH = "preview search"
    UPDATE_EXPERIMENT = "update experiment"
    UPDATE_METADATA = "update experiment metadata"
    END_EXPERIMENT = "end experiment"
    """Cancel or kill it."""
    DELETE_EXPERIMENT = "delete experiment"
    """Or files of it."""
    DELETE_CHECKPOINTS = "delete checkpoints"
    """Or say how many are kept."""
    MOVE_EXPERIMENT = "move experiment"
    TAKE_EXPERIMENT = "take experiment"
    """Into the workspace that it is moved to."""
    REPORT = "report"
    """What a task tells and asks: metrics, progress, checkpoints, logs, rendezvous, signals."""
    CREATE_INTERACTIVE = "create interactive task"
    UPDATE_INTERACTIVE = "update interactive task"
    UPDATE_JOB = "update job"
    CONTROL_JOB_QUEUE = "control job queue"
    """The same, where `strict_job_queue_control` is set."""
    VIEW_EXTERNAL_JOBS = "view external jobs"
    """Names and users of those that others have at a batch system."""
    VIEW_USAGE = "view cluster usage"
    VIEW_TEMPLATES = "view templates"
    CREATE_TEMPLATE = "create template"
    UPDATE_TEMPLATE = "update template"
    """Its configuration or its name."""
    DELETE_TEMPLATE = "delete template"
    VIEW_GLOBAL_POLICIES = "view global config policies"
    VIEW_WORKSPACE_POLICIES = "view workspace config policies"
    UPDATE_GLOBAL_POLICIES = "modify global config policies"
    UPDATE_WORKSPACE_POLICIES = "modify workspace config policies"
    VIEW_WEBHOOKS = "view webhooks"
    EDIT_WEBHOOKS = "edit webhooks"
    BIND_POOLS = "bind resource pools to workspaces"
    VIEW_MODELS = "view models"
    CREATE_MODEL = "create model"
    UPDATE_MODEL = "update model"
    """Or register a version of it."""
    DELETE_MODEL = "delete model"
    DELETE_MODEL_VERSION = "delete model version"
    UPDATE_AGENTS = "update agents"
    VIEW_AGENT_DETAILS = "view sensitive agent info"
    UPDATE_USER = "update user"
    ADMINISTRATE_USERS = "administrate users"
    VIEW_GROUPS = "view groups"
    """Those that one is in, or all."""
    VIEW_ALL_GROUPS = "view all groups"
    """And all roles, whoever holds them."""
    UPDATE_GROUPS = "update groups"
    VIEW_ROLES = "view roles"
    ASSIGN_ROLES = "assign roles"
    UPDATE_ROLES = "update roles"
    ADMINISTRATE_CLUSTER = "administrate cluster"
    """Its message, the log level of the master, deleting old logs."""
    USE_SESSION = "use session"
    """Ask who one is, and log out."""
    MANAGE_SESSIONS = "manage sessions"
    """List and end them."""
    USE_SETTINGS = "use settings"
    """What pages remember of their user, recent projects too."""
    VIEW_TOKENS = "view access tokens"
    CREATE_TOKEN = "create access token"  # noqa: S105
    UPDATE_TOKEN = "update access token"  # noqa: S105
    """Describe or revoke it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What an action is done to, as far as rules ask. The default is the cluster as such."""

    kind: str = "cluster"
    id: str | int = ""
    owner_id: int | None = None
    workspace_id: int | None = None
    experiment_id: int | None = None
    task_id: str | None = None
    allocation_id: str | None = None
    """Set when the target is one allocation: others of the same task may not act on it."""
    shows: frozenset[int] | None = None
    """Of a TensorBoard: the workspaces of its experiments, in all of which whoever sees it must see those."""
    hint: str = ""
    """What ends the message that it is not there: a hidden one is told in the same words."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id}".rstrip()


CLUSTER = Target()
ANYWHERE = Target(kind="anywhere")
"""Not known yet, or many: may this be done to anything at all?"""
