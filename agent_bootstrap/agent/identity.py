"""Whom a task runs as on this machine: what the master asks for, as far as the agent can do it."""

from __future__ import annotations

import grp
import os
import pwd

from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.container_options import AGENT_USER, OsUser
from agent_bootstrap.protocol import ContainerSpec, ExitFailure, IsolationKind

UNPRIVILEGED = OsUser(uid=65530, gid=65530, user="task", group="task")
"""Tasks of a root agent when nobody said whom they run as. It needs no account.

Why this number: Debian keeps it free of accounts (65000 to 65533), systemd gives it to no service (its dynamic users
end at 65519), and the 65,536 ids of a rootless container have it.
"""


def task_identity(wanted: OsUser | None, agent: OsUser) -> OsUser:
    """`wanted` comes from the master, None if nobody said; `agent` is the agent itself. Pure.

    Root may be anybody; everybody else is only himself. Raises StartRefused.
    """
    if agent.uid == 0:
        return UNPRIVILEGED if wanted is None else wanted
    if wanted is None:
        return agent
    if (wanted.uid, wanted.gid) == (agent.uid, agent.gid):
        return wanted
    raise StartRefused(
        ExitFailure.TASK_ERROR,
        f"The agent runs as {shown(agent)} and cannot run tasks as {shown(wanted)}",
    )


def process_user(agent: OsUser, isolation: IsolationKind) -> str:
    """Whom tasks without an image run as that nobody is asked for. Empty: all tasks here have one. Pure."""
    if isolation is IsolationKind.CONTAINERS:
        return ""
    return (agent if isolation is IsolationKind.DIRECTORY else task_identity(None, agent)).user


def one_user_notes(agent: OsUser) -> tuple[str, ...]:
    """What an operator should know. Pure."""
    if agent.uid == 0:
        return ()
    return (f"the agent is not root: all tasks run as {shown(agent)} and may do what it may",)


def named_after(who: OsUser, spec: ContainerSpec) -> ContainerSpec:
    """With the name in its paths, where the master left that to us. Pure."""
    if AGENT_USER not in spec.work_dir:
        return spec
    work_dir = spec.work_dir.replace(AGENT_USER, who.user)
    binds = tuple(
        bind.model_copy(update={"target": bind.target.replace(spec.work_dir, work_dir, 1)})
        for bind in spec.binds
    )
    environment = {**spec.environment, "DET_WORKDIR": work_dir}
    return spec.model_copy(
        update={"work_dir": work_dir, "binds": binds, "environment": environment}
    )


def own_identity() -> OsUser:
    """The agent, by its effective ids. A number without an account is its own name."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    return OsUser(uid=uid, gid=gid, user=user, group=group)


def shown(who: OsUser) -> str:
    """`alice (1000)`, with the group where it has another number."""
    ids = str(who.uid) if who.uid == who.gid else f"{who.uid}:{who.gid}"
    return f"{who.user} ({ids})"
