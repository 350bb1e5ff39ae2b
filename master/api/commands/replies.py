"""Commands, as they are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.agents.replies import Container
from master.api.enums import LaunchWarning, TaskState
from master.api.paging import Pagination
from master.api.values import Timestamp
from windlass.base.json_types import JsonObject


class Command(TypedDict):
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


class CommandReply(TypedDict):
    command: Command


class GetCommandReply(TypedDict):
    command: Command
    config: JsonObject


class LaunchedCommandReply(TypedDict):
    command: Command
    config: JsonObject
    warnings: list[LaunchWarning]
    configWarnings: list[str]
    """Our own: in sentences."""


class CommandsReply(TypedDict):
    commands: list[Command]
    pagination: Pagination
