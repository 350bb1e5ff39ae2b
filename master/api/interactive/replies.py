"""Interactive tasks, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.agents.replies import Container
from master.api.enums import LaunchWarning, TaskState
from master.api.paging import Pagination
from master.api.values import Timestamp
from windlass.base.formats.json_types import JsonObject


class Command(TypedDict):
    """Every kind has these."""

    id: str
    description: str
    state: TaskState
    startTime: Timestamp | None
    endTime: Timestamp | None
    container: Container | None
    username: str
    displayName: str
    userId: int
    resourcePool: str
    exitStatus: str
    jobId: str
    workspaceId: int
    waitingReason: str | None
    """Our own: why it waits."""
    lastActivity: Timestamp | None
    """Our own: when somebody last used it, or when it began to run; of what ends when nobody uses it."""
    idleEndsAt: Timestamp | None
    """Our own: when it is ended if nobody uses it until then."""


class Notebook(Command):
    serviceAddress: str
    """Below the master's URL; with its token for those who may change it."""


class AgentUserGroup(TypedDict):
    user: str
    """Empty: root."""
    uid: int
    group: str
    gid: int


class Shell(Command):
    privateKey: str
    """Empty for those who may not change it."""
    publicKey: str
    addresses: list[JsonObject]
    """Empty: it is reached through the master."""
    agentUserGroup: AgentUserGroup


class Tensorboard(Command):
    serviceAddress: str
    """Below the master's URL."""
    experimentIds: list[int]
    trialIds: list[int]


class Got(TypedDict):
    config: JsonObject


class Launched(Got):
    warnings: list[LaunchWarning]
    configWarnings: list[str]
    """Our own: in sentences."""


class Listed(TypedDict):
    pagination: Pagination


class CommandReply(TypedDict):
    command: Command


class GetCommandReply(Got):
    command: Command


class LaunchedCommandReply(Launched):
    command: Command


class CommandsReply(Listed):
    commands: list[Command]


class NotebookReply(TypedDict):
    notebook: Notebook


class GetNotebookReply(Got):
    notebook: Notebook


class LaunchedNotebookReply(Launched):
    notebook: Notebook


class NotebooksReply(Listed):
    notebooks: list[Notebook]


class ShellReply(TypedDict):
    shell: Shell


class GetShellReply(Got):
    shell: Shell


class LaunchedShellReply(Launched):
    shell: Shell


class ShellsReply(Listed):
    shells: list[Shell]


class TensorboardReply(TypedDict):
    tensorboard: Tensorboard


class GetTensorboardReply(Got):
    tensorboard: Tensorboard


class LaunchedTensorboardReply(Launched):
    tensorboard: Tensorboard


class TensorboardsReply(Listed):
    tensorboards: list[Tensorboard]
