"""The kinds on the wire: what the published API calls each, and what it shows of one beyond what all have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from master.api.interactive import replies
from master.api.interactive.replies import AgentUserGroup
from master.api.interactive.requests import Found, LaunchRequest, LaunchTask
from master.api.interactive.tensorboards import LaunchTensorboard, look_up
from master.api.services import ApiContext
from master.core.jobs import JobType
from master.store.tables import Command as Row
from master.tasks.shell_keys import PRIVATE, PUBLIC

Shape: TypeAlias = type
"""Of a reply."""
LaunchShape: TypeAlias = type[LaunchTask]


@dataclass(frozen=True, slots=True)
class Shown:
    """One task, and who looks."""

    api: ApiContext
    row: Row
    may_use: bool
    """Its owner, administrators, and whom the cluster lets change the work of others."""


async def _as_given(request: LaunchRequest) -> Found:
    return Found(config=request.body.config)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireKind:
    type: JobType
    one: str
    """The key of one in replies."""
    many: str
    """Of several, and in paths."""
    extras: Callable[[Shown], Mapping[str, Any]]
    """Keys beyond what all kinds have."""
    none: Mapping[str, Any]
    """The same for a preview, where there is no task."""
    body: LaunchShape = LaunchTask
    """Of a launch."""
    look_up: Callable[[LaunchRequest], Awaitable[Found]] = _as_given
    """What it names."""
    reply: Shape
    got: Shape
    launched: Shape
    listed: Shape
    for_owner_alone: bool = False
    """Only its owner and those who may change the work of others can open it; who else sees it gets no token."""


def _command(shown: Shown) -> Mapping[str, Any]:
    return {}


def _notebook(shown: Shown) -> Mapping[str, Any]:
    address = f"/proxy/{shown.row.id}/"
    if shown.may_use and shown.row.ended_at is None:
        address += f"?token={shown.api.services.tasks.tokens.token(shown.row.id)}"
    return {"serviceAddress": address}


def _tensorboard(shown: Shown) -> Mapping[str, Any]:
    details = shown.row.details or {}
    return {
        "serviceAddress": f"/proxy/{shown.row.id}/",
        "experimentIds": details.get("experiment_ids", []),
        "trialIds": details.get("trial_ids", []),
    }


def _shell(shown: Shown) -> Mapping[str, Any]:
    keys = shown.row.details or {}
    return {
        "privateKey": keys.get(PRIVATE, "") if shown.may_use else "",
        "publicKey": keys.get(PUBLIC, ""),
        "addresses": [],
        "agentUserGroup": _os_user(shown),
    }


def _os_user(shown: Shown) -> AgentUserGroup:
    who = shown.api.services.tasks.os_user(shown.row.id)
    if who is None:
        return {"user": "", "uid": 0, "group": "", "gid": 0}
    return {"user": who.user, "uid": who.uid, "group": who.group, "gid": who.gid}


KINDS = (
    WireKind(
        type=JobType.COMMAND,
        one="command",
        many="commands",
        extras=_command,
        none={},
        reply=replies.CommandReply,
        got=replies.GetCommandReply,
        launched=replies.LaunchedCommandReply,
        listed=replies.CommandsReply,
    ),
    WireKind(
        type=JobType.NOTEBOOK,
        one="notebook",
        many="notebooks",
        extras=_notebook,
        none={"serviceAddress": ""},
        reply=replies.NotebookReply,
        got=replies.GetNotebookReply,
        launched=replies.LaunchedNotebookReply,
        listed=replies.NotebooksReply,
        for_owner_alone=True,
    ),
    WireKind(
        type=JobType.SHELL,
        one="shell",
        many="shells",
        extras=_shell,
        none={
            "privateKey": "",
            "publicKey": "",
            "addresses": [],
            "agentUserGroup": {"user": "", "uid": 0, "group": "", "gid": 0},
        },
        reply=replies.ShellReply,
        got=replies.GetShellReply,
        launched=replies.LaunchedShellReply,
        listed=replies.ShellsReply,
    ),
    WireKind(
        type=JobType.TENSORBOARD,
        one="tensorboard",
        many="tensorboards",
        extras=_tensorboard,
        none={"serviceAddress": "", "experimentIds": [], "trialIds": []},
        body=LaunchTensorboard,
        look_up=look_up,
        reply=replies.TensorboardReply,
        got=replies.GetTensorboardReply,
        launched=replies.LaunchedTensorboardReply,
        listed=replies.TensorboardsReply,
    ),
)
