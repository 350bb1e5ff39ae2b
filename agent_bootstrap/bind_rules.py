"""Which paths of a machine may be mounted into a task: asked by the master at submission, by the agent at the start.

The master's rules travel with the task (`ContainerOptions.host_paths`); an agent adds its own (`allowed_host_paths` of
agent.yaml, its folders), and what either refuses is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict

ONLY_WHEN_NAMED = ("/sys", "/dev", "/run")
"""Kernel interfaces, devices, and the sockets of the machine's services."""


class HostPaths(BaseModel):
    """The rules of one side, master or agent."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    file: str = "master.yaml"
    """Where its operator writes `allowed_host_paths`."""
    allowed: tuple[str, ...] | None = None
    """`allowed_host_paths`. None: every path for a task that is not root, `cluster` for one that is."""
    forbidden: tuple[str, ...] = ()
    """Folders of a master or an agent: not they, not what is in them, not what holds them."""
    cluster: tuple[str, ...] = ()
    """What the administrator's own configuration mounts: the checkpoint storage, the mounts of the task defaults.
    Allowed in any case, also inside `forbidden`, where a master keeps its default checkpoint storage."""


def problem_of(host_path: str, rules: HostPaths, *, as_root: bool) -> str | None:
    """Why it may not be mounted, as the rest of a sentence that begins with the path; None if it may.

    Symbolic links are followed first, as this machine has them. Blocks: it looks at the file system.
    """
    if not host_path.startswith("/") or "\0" in host_path:
        return "is not an absolute path"
    written, cluster = "/" + os.path.normpath(host_path).lstrip("/"), _resolved(rules.cluster)
    if refusal := _never(written, rules, cluster):
        return refusal
    try:
        path = resolved(host_path)
    except OSError as error:
        return f"cannot be looked up: {error.strerror}"
    refusal = _never(path, rules, cluster)
    if refusal is None and not _in_one_of(path, cluster):
        refusal = _not_allowed(path, rules, as_root=as_root)
    return f"(a link to {path}) {refusal}" if refusal and path != written else refusal


def resolved(path: str) -> str:
    """Without symbolic links. What does not exist stays as it is written. Raises OSError for odd links."""
    return "/" + os.path.realpath(path).lstrip("/")


def _never(path: str, rules: HostPaths, cluster: Sequence[str]) -> str | None:
    if not path.strip("/"):
        return "is the whole machine: mount only what the task needs"
    if _is_in(path, "/proc"):
        return "is in /proc: every task has its own"
    for folder in _resolved(rules.forbidden):
        if _is_in(folder, path) or (_is_in(path, folder) and not _in_one_of(path, cluster)):
            return f"would show {folder}, a folder of Windlass itself: mount another"
    return None


def _not_allowed(path: str, rules: HostPaths, *, as_root: bool) -> str | None:
    named = _resolved(rules.allowed or ())
    key = f"allowed_host_paths of {rules.file}"
    for top in ONLY_WHEN_NAMED:
        if _is_in(path, top):
            below = [entry for entry in named if _is_in(entry, top)]
            if _in_one_of(path, below):
                return None
            return f"is in {top}, of which {key} names {_list(below)}"
    if rules.allowed is not None:
        return None if _in_one_of(path, named) else f"is not in {key}: {_list(rules.allowed)}"
    if as_root:
        return (
            f"may not be mounted by a task that runs as root, only {_list(rules.cluster)}: "
            f"name it in {key}"
        )
    return None


def _list(paths: Iterable[str]) -> str:
    return ", ".join(paths) or "nothing"


def _resolved(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(resolved(path) for path in paths)


def _in_one_of(path: str, folders: Iterable[str]) -> bool:
    return any(_is_in(path, folder) for folder in folders)


def _is_in(path: str, folder: str) -> bool:
    """Or the folder itself."""
    return PurePosixPath(path).is_relative_to(folder)
