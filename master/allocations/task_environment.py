"""What every task is given: the environment of the published task contract, its files, and the user's mounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Protocol, Self

import orjson

from master.allocations.machine import AllocationState
from master.core.expconf.models.environment import BindMount as UserMount
from master.core.expconf.models.environment import Device, Environment, TaskLimits
from rm_backends.base import BindMount, TaskFile
from windlass.base.formats.json_types import JsonMapping

RUN_DIR = "/run/determined"
WORK_DIR = f"{RUN_DIR}/workdir"
STARTUP_HOOK = f"{RUN_DIR}/dynamic-tcd-startup-hook.sh"
LAUNCHER = ("{python}", "-P", "-m", "windlass.launch")
"""What every task starts with."""
RETRY_CONFIG: JsonMapping = {
    "total": 20,
    "backoff_factor": 0.5,
    "allowed_methods": None,
    "status_forcelist": [429, 502, 503, 504],
    "raise_on_status": False,
}
"""Makes the published harness survive a restart of the master; without it one 503 ends a trial."""


class TaskResources(Protocol):
    @property
    def shm_size(self) -> int | None: ...

    @property
    def devices(self) -> Sequence[Device]: ...

    @property
    def limits(self) -> TaskLimits: ...


class TaskConfig(Protocol):
    """What the complete configurations of all tasks have."""

    @property
    def environment(self) -> Environment: ...

    @property
    def bind_mounts(self) -> Sequence[UserMount]: ...

    @property
    def resources(self) -> TaskResources: ...

    def to_json(self) -> dict[str, Any]: ...

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self: ...


def common(
    allocation: AllocationState, token: str, *, task_type: str, user: str, work_dir: str = WORK_DIR
) -> dict[str, str]:
    """The variables that tasks of every type have. `user`: the name of whom it acts for."""
    logging = {"allocation_id": allocation.id, "task_id": allocation.task_id}
    return {
        "DET_TASK_ID": allocation.task_id,
        "DET_ALLOCATION_ID": allocation.id,
        "DET_TASK_TYPE": task_type,
        "DET_RESOURCES_TYPE": "docker-container",
        "DET_SESSION_TOKEN": token,
        "DET_USER_TOKEN": token,
        "DET_USER": user,
        "DET_RUN_DIR": RUN_DIR,
        "DET_WORKDIR": work_dir,
        "DET_USE_TLS": "false",
        "DET_SEGMENT_ENABLED": "false",
        "DET_TASK_LOGGING_METADATA": as_json(logging),
        "DET_RETRY_CONFIG": as_json(RETRY_CONFIG),
    }


def own_variables(config: TaskConfig, allocation: AllocationState) -> dict[str, str]:
    """`environment.environment_variables`, for the slots it runs on.

    "NAME=VALUE" lines; the later one wins, a name alone is an empty value.
    """
    by_kind = config.environment.environment_variables
    lines: Iterable[str] = getattr(by_kind, slot_kind(allocation), ())
    pairs = (line.partition("=") for line in lines)
    return {name: value for name, _, value in pairs}


def slot_kind(allocation: AllocationState) -> str:
    """Of the first container's slots, as for the image: cuda, rocm or cpu."""
    return allocation.containers[0].container.slot_kind if allocation.containers else "cpu"


def has_peers(allocation: AllocationState) -> bool:
    """Whether it has several containers, which must find each other."""
    return len(allocation.containers) > 1


def startup_hook(content: str) -> tuple[TaskFile, ...]:
    """The cluster's startup hook as a file; nothing if it is empty."""
    if not content:
        return ()
    return (TaskFile(path=STARTUP_HOOK, content=content.encode(), mode=0o700),)


def own_mounts(config: TaskConfig, work_dir: str = WORK_DIR) -> Iterable[BindMount]:
    """`bind_mounts`; relative container paths are below the working directory."""
    for mount in config.bind_mounts:
        target = str(PurePosixPath(work_dir) / mount.container_path)
        yield BindMount(source=mount.host_path, target=target, read_only=mount.read_only)


def as_json(value: Any) -> str:
    return orjson.dumps(value).decode()
