"""What of a machine a configuration mounts or is given, and whether the cluster lets it: checked at submission."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from agent_bootstrap.bind_rules import HostPaths, problem_of
from agent_bootstrap.privilege_rules import Privileges, capability_problems, device_problems
from master.allocations.task_environment import TaskConfig, own_mounts
from master.core.expconf import ExperimentConfig
from master.core.expconf.images import image_files
from master.core.expconf.models.storage import CheckpointStorage, DirectoryStorage, SharedFsStorage
from master.core.expconf.storage_names import name_problems
from rm_backends.base import BindMount

SHARED_FS = "/determined_shared_fs"


def mount_problems(config: TaskConfig, rules: HostPaths, *, as_root: bool) -> Iterator[str]:
    """One line each. Blocks: links are followed."""
    for number, mount in enumerate(config.bind_mounts):
        if problem := problem_of(mount.host_path, rules, as_root=as_root):
            yield f"<config>.bind_mounts[{number}].host_path: {mount.host_path} {problem}"
        if covers := _target_problem(mount.container_path):
            yield f"<config>.bind_mounts[{number}].container_path: {mount.container_path} {covers}"
    # The files of an image are the task's to read, as those of a mount.
    for key, path in image_files(config.environment.image):
        if problem := problem_of(path, rules, as_root=as_root):
            yield f"<config>.environment.{key}: {path} {problem}"


def privilege_problems(config: TaskConfig, rules: Privileges) -> Iterator[str]:
    """One line each: capabilities and devices that the cluster gives to nobody."""
    names = config.environment.add_capabilities
    for number, problem in capability_problems(names, rules):
        yield f"<config>.environment.add_capabilities[{number}]: {names[number]} {problem}"
    paths = [device.host_path for device in config.resources.devices]
    for number, problem in device_problems(paths, rules):
        yield f"<config>.resources.devices[{number}].host_path: {paths[number]} {problem}"


def _target_problem(container_path: str) -> str | None:
    if not container_path.startswith("/"):
        return None  # below the working directory
    path = PurePosixPath("/" + posixpath.normpath(container_path).lstrip("/"))
    if path == PurePosixPath("/"):
        return "is the whole container: name a directory below it"
    if path.is_relative_to("/proc"):
        return "is in /proc, which every task has of its own: mount it elsewhere"
    return None


def storage_problems(config: ExperimentConfig, rules: HostPaths, *, as_root: bool) -> Iterator[str]:
    storage = config.checkpoint_storage
    yield from name_problems(storage, "<config>.checkpoint_storage")
    mount = storage_mount(config)
    if mount is not None and (problem := problem_of(mount.source, rules, as_root=as_root)):
        key = "host_path" if mount.target == SHARED_FS else "container_path"
        yield f"<config>.checkpoint_storage.{key}: {mount.source} {problem}"


def storage_unwritable(config: ExperimentConfig) -> Iterator[str]:
    """For tasks that run as this process's user, on this machine. Blocks."""
    storage = config.checkpoint_storage
    if (folder := host_folder(storage)) is None:
        return
    path = place = Path(folder, below_host_folder(storage))
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        problem = f"{place} is not a directory"
    elif not os.access(place, os.W_OK | os.X_OK):
        problem = f"{place} is not writable for the user of the agents ({os.geteuid()})"
    else:
        return
    key = "host_path" if isinstance(storage, SharedFsStorage) else "container_path"
    what = "" if place == path else f", in which {path} is to be made"
    yield (
        f"<config>.checkpoint_storage.{key}: {problem}{what}: name a folder that this user may write, or make it so"
    )


def storage_mount(config: ExperimentConfig) -> BindMount | None:
    """How a trial sees its storage. None: it lies in a bucket, or in one of the user's own mounts."""
    storage = config.checkpoint_storage
    path = host_folder(storage)
    if path is None or isinstance(storage, SharedFsStorage):
        return None if path is None else BindMount(source=path, target=SHARED_FS)
    if any(PurePosixPath(path).is_relative_to(mount.target) for mount in own_mounts(config)):
        return None
    return BindMount(source=path, target=path)


def host_folder(storage: CheckpointStorage) -> str | None:
    """The folder of the agents' machines that is mounted for it. None: it is none of theirs."""
    if isinstance(storage, SharedFsStorage):
        return storage.host_path
    if isinstance(storage, DirectoryStorage):
        return str(PurePosixPath(storage.container_path))
    return None


def below_host_folder(storage: CheckpointStorage) -> str:
    """Where in it the checkpoints are; empty: in the folder itself. `..` does not lead out of it."""
    if not isinstance(storage, SharedFsStorage) or not storage.storage_path:
        return ""
    full = posixpath.normpath(posixpath.join(storage.host_path, storage.storage_path))
    relative = posixpath.relpath(full, storage.host_path)
    return "" if relative == "." else relative
