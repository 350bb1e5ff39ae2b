"""What a specification says to supervisor and task_init.py of the jail around a task."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from typing import Any

from agent_bootstrap.agent.container_dir import ContainerDir
from agent_bootstrap.agent.runtimes.accounts import supplementary_groups
from agent_bootstrap.agent.runtimes.bubblewrap import STAGE, command
from agent_bootstrap.agent.runtimes.devices import device_groups
from agent_bootstrap.agent.runtimes.isolation import Isolation
from agent_bootstrap.agent.runtimes.mount_list import Mount, for_spec, staged_sources
from agent_bootstrap.agent.runtimes.seccomp_filter import compile_filter
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.protocol import IsolationKind


def jail(
    place: ContainerDir,
    isolation: Isolation,
    mounts: Sequence[Mount],
    *,
    who: OsUser,
    agent: OsUser,
) -> dict[str, Any]:
    """Keys of the specification. Raises OSError."""
    is_root = agent.uid == 0
    devices = [mount.target for mount in mounts if mount.kind == "device"]
    groups = sorted({*supplementary_groups(who), *device_groups(devices)})
    user = {"uid": who.uid, "gid": who.gid, "groups": groups}
    document: dict[str, Any] = {"seccomp": _filter(), "user": user if is_root else None}
    if isolation.kind is IsolationKind.BUBBLEWRAP:
        words = command(isolation.program, mounts, staged=is_root)
        staged = staged_sources(mounts) if is_root else []
        return document | {"bubblewrap": words, "stage": STAGE, "staged": staged}
    (place.path / "root").mkdir(mode=0o755)
    own = {"user_namespace": not is_root, "ids": [who.uid, who.gid], "mounts": for_spec(mounts)}
    return document | own


@cache
def _filter() -> str:
    return base64.b64encode(compile_filter()).decode()
