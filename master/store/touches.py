"""What a unit of work concerns, told by the tables that it writes: nobody has to remember to tell.

Experiments, trials and tasks are told by their ids, since they are written often; whoever wants to know where they are
looks. Other things are told by the workspace they are in. Where things leave (are deleted or moved) is read in the
transaction, while it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from master.store import tables
from master.store.unit_of_work import Table


class Subject(StrEnum):
    """Kinds of things that are told; each says what the key of a `Touch` is."""

    EXPERIMENT = auto()
    """Its id."""
    TRIAL = auto()
    """Its id."""
    TASK = auto()
    """Its id."""
    USER = auto()
    """The id of one whose account, logins, tokens, settings or roles it is."""
    EXPERIMENTS_OF = auto()
    """A workspace that experiments have left or come to, other than by being made there."""
    TASKS_OF = auto()
    """The same of tasks."""
    WORKSPACES = auto()
    """Of this and of those that follow: the id of a workspace; none: of the whole cluster."""
    MODELS = auto()
    TEMPLATES = auto()
    POLICIES = auto()
    WEBHOOKS = auto()
    USERS = auto()
    """Of this and of those that follow there is one."""
    GROUPS = auto()
    LOGINS = auto()
    QUEUE = auto()
    CLUSTER = auto()
    FLEET = auto()
    COSTS = auto()


@dataclass(frozen=True, slots=True)
class Touch:
    subject: Subject
    key: int | str | None = None


def _same(value: object) -> int | str | None:
    if value is None or isinstance(value, int | str):
        return value
    raise TypeError(f"{value!r} is the key of nothing")


def _task_of(allocation_id: object) -> str:
    """Its id is that of the task, and a number."""
    return str(allocation_id).rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Source:
    """What the rows of a table tell of."""

    subject: Subject
    column: str | None = None
    """Whose values are the keys; None: there is one thing of this kind."""
    parent: Table | None = None
    """Its row of that id is meant, and the key is the workspace where that is."""
    key: Callable[[object], int | str | None] = _same
    leaves: bool = False
    """Only what is deleted, or given another value of the column, is told."""
    required: bool = False
    """A row without a value tells of nothing."""


def _of_user(column: str = "user_id") -> Source:
    return Source(Subject.USER, column, required=True)


SOURCES: Mapping[Table, Sequence[Source]] = {
    tables.Experiment: (
        Source(Subject.EXPERIMENT, "id"),
        Source(Subject.EXPERIMENTS_OF, "project_id", tables.Project, leaves=True),
    ),
    tables.SearcherEvent: (Source(Subject.EXPERIMENT, "experiment_id"),),
    tables.CheckpointGc: (Source(Subject.EXPERIMENT, "experiment_id"),),
    # Metrics are not here: whatever reports them writes the row of their trial, too.
    tables.Trial: (
        Source(Subject.TRIAL, "id"),
        Source(Subject.EXPERIMENT, "experiment_id", leaves=True),
    ),
    tables.Checkpoint: (Source(Subject.TRIAL, "trial_id", required=True),),
    tables.Task: (Source(Subject.TASK, "id"),),
    tables.Allocation: (Source(Subject.TASK, "id", key=_task_of), Source(Subject.QUEUE)),
    tables.Command: (
        Source(Subject.TASK, "id"),
        Source(Subject.TASKS_OF, "workspace_id", leaves=True),
    ),
    tables.Workspace: (Source(Subject.WORKSPACES, "id"),),
    tables.Project: (
        Source(Subject.WORKSPACES, "workspace_id"),
        Source(Subject.EXPERIMENTS_OF, "workspace_id", leaves=True),
    ),
    tables.PoolBinding: (
        Source(Subject.WORKSPACES, "workspace_id"),
        Source(Subject.CLUSTER),
    ),
    tables.Model: (Source(Subject.MODELS, "workspace_id"),),
    tables.ModelVersion: (Source(Subject.MODELS, "model_id", tables.Model),),
    tables.Template: (Source(Subject.TEMPLATES, "workspace_id"),),
    tables.ConfigPolicy: (Source(Subject.POLICIES, "workspace_id"),),
    tables.Webhook: (Source(Subject.WEBHOOKS, "workspace_id"),),
    tables.WebhookTrigger: (Source(Subject.WEBHOOKS, "webhook_id", tables.Webhook),),
    tables.WebhookEvent: (Source(Subject.WEBHOOKS, "webhook_id", tables.Webhook),),
    tables.User: (Source(Subject.USERS), _of_user("id")),
    tables.UserSession: (_of_user(), Source(Subject.LOGINS)),
    tables.AccessToken: (_of_user(), Source(Subject.LOGINS)),
    tables.UserSetting: (_of_user(),),
    tables.WorkspacePin: (_of_user(),),
    tables.ProjectVisit: (_of_user(),),
    tables.SavedView: (
        _of_user("owner_id"),
        Source(Subject.WORKSPACES, "workspace_id", required=True),
        Source(Subject.WORKSPACES, "project_id", tables.Project, required=True),
    ),
    tables.UserGroup: (Source(Subject.GROUPS),),
    tables.UserGroupMember: (Source(Subject.GROUPS), _of_user()),
    tables.RoleAssignment: (
        Source(Subject.GROUPS),
        _of_user(),
        Source(Subject.WORKSPACES, "workspace_id"),
    ),
    tables.Agent: (Source(Subject.CLUSTER),),
    tables.JoinToken: (Source(Subject.CLUSTER),),
    tables.FleetIntent: (Source(Subject.FLEET),),
    tables.FleetLesson: (Source(Subject.FLEET),),
    tables.FleetBake: (Source(Subject.FLEET),),
    tables.FleetInstance: (Source(Subject.FLEET),),
    tables.FleetDecision: (Source(Subject.FLEET),),
    tables.BatchLease: (Source(Subject.FLEET), Source(Subject.QUEUE)),
    tables.Cost: (Source(Subject.COSTS),),
}
NOT_SHOWN: Mapping[Table, str] = {
    tables.Leader: "which master leads",
    tables.Meta: "what the master remembers for itself, and its message, which is shown at the next read",
    tables.Change: "what `/stream` tells of",
    tables.ProjectKey: "written with its project",
    tables.TrialSource: "written with a version of a model, or by a trial that begins",
    tables.ShownExperiment: "written with its TensorBoard",
    tables.SearcherSnapshot: "what the master continues a search from",
    tables.AllocationAccelerator: "written when an allocation starts, as its row is",
    tables.Metric: "whatever reports them writes the row of their trial, too",
    tables.StorageBackend: "where checkpoints are",
    tables.JoinTokenUse: "whether a join token may be used again",
    tables.FleetDecisionSubject: "written with its entry of the journal",
    tables.Port: "written with an allocation",
}
"""Tables that tell nobody, and why."""
