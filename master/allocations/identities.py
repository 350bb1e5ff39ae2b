"""Whom a task runs as: what its workspace says, then its owner's link, then the cluster, field by field."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from agent_bootstrap.agent.identity import UNPRIVILEGED
from agent_bootstrap.container_options import OsId, OsName, OsUser


class TaskOwner(NamedTuple):
    """Whose a task is, and where it belongs."""

    user_id: int
    workspace_id: int


class WorkspaceUser(BaseModel):
    """What a workspace says of whom its tasks run as. None: that is left to others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: OsId | None = None
    gid: OsId | None = None
    user: OsName | None = None
    group: OsName | None = None


def merged(workspace: WorkspaceUser | None, *others: OsUser | None) -> OsUser | None:
    """`others`: the strongest first. None if nobody said: the agent takes somebody without rights.

    Root runs nothing unless one of them names it: what is left open beside a part that a workspace names is of a user
    without rights too.
    """
    rest = next((other for other in others if other is not None), None)
    said = _said(workspace)
    return rest if not said else (rest or UNPRIVILEGED).model_copy(update=said)


def _said(workspace: WorkspaceUser | None) -> dict[str, Any]:
    return {} if workspace is None else workspace.model_dump(exclude_none=True)
