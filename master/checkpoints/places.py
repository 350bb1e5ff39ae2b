"""Which storage the master itself may touch, and as whom.

The configuration of an experiment names its storage, and its author would have the master go there: into any directory
of the master's machine, any bucket that the machine may use, any service that it reaches. So the master goes only to
what master.yaml names, and to buckets at their provider's own address with keys of the configuration. Everything else
is reached from a task of the experiment's owner, with the owner's rights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter

from agent_bootstrap.agent.identity import UNPRIVILEGED
from agent_bootstrap.container_options import OsUser
from master.allocations.identities import TaskOwner
from master.allocations.mounts import below_host_folder, host_folder
from master.core.expconf.models.storage import CheckpointStorage
from master.core.expconf.references import PoolSecrets
from master.experiments.submission.storage_checks import may_try
from windlass.base.formats.json_types import JsonMapping
from windlass.storage.worker import RunAs

_STORAGE: TypeAdapter[CheckpointStorage] = TypeAdapter(CheckpointStorage)
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FolderHere:
    """A directory of this machine."""

    root: str
    below: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlaces:
    cluster: JsonMapping
    """The `checkpoint_storage` of master.yaml, or the default one."""
    secrets: PoolSecrets = field(default_factory=PoolSecrets)
    os_user: Callable[[TaskOwner], OsUser | None] = lambda _: None
    """Whom the tasks of an owner run as; None: nobody said."""

    def folder(self, storage: JsonMapping) -> FolderHere | None:
        """Where a storage lies on this machine, if it is the cluster's own directory."""
        theirs, ours = _read(storage), _read(self.cluster)
        root = host_folder(theirs) if theirs is not None else None
        if root is None or theirs is None or ours is None or not _same(root, host_folder(ours)):
            return None
        return FolderHere(root, PurePosixPath(below_host_folder(theirs)).parts)

    def bucket(self, storage: JsonMapping) -> bool:
        """Whether it is a bucket that the master may use: by the rule of checks at submission."""
        section = self.resolved(storage)
        return _read(section) is not None and may_try(section, self.resolved(self.cluster))

    def resolved(self, storage: JsonMapping) -> dict[str, Any]:
        """With the secrets of now, as `open_storage` wants it."""
        return self.secrets.resolved(storage)

    def run_as(self, owner: TaskOwner) -> RunAs | None:
        """Whose rights a worker takes that touches files of an owner's experiment. None: those of this process."""
        if os.geteuid() != 0:
            return None
        who = self.os_user(owner) or UNPRIVILEGED
        return RunAs(uid=who.uid, gid=who.gid)

    def other_user(self) -> RunAs | None:
        """The same for a reader who owns nothing of it."""
        if os.geteuid() != 0:
            return None
        return RunAs(uid=UNPRIVILEGED.uid, gid=UNPRIVILEGED.gid)


def open_folder(here: FolderHere) -> int:
    """A descriptor. Below its root no link is followed. Raises OSError."""
    folder = os.open(here.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in here.below:
        try:
            deeper = os.open(part, _OPEN, dir_fd=folder)
        finally:
            os.close(folder)
        folder = deeper
    return folder


def sees_any(here: FolderHere, names: tuple[str, ...]) -> bool:
    """Whether one of these is there: then this is the storage that tasks have written to. Blocks."""
    with suppress(OSError):
        folder = open_folder(here)
        try:
            for name in names:
                with suppress(OSError):
                    os.stat(name, dir_fd=folder, follow_symlinks=False)
                    return True
        finally:
            os.close(folder)
    return False


def _read(storage: Mapping[str, Any]) -> CheckpointStorage | None:
    """None for what a task reported as its storage and is none."""
    with suppress(ValueError):
        return _STORAGE.validate_python(dict(storage))
    return None


def _same(one: str, other: str | None) -> bool:
    return other is not None and Path(os.path.normpath(one)) == Path(os.path.normpath(other))
