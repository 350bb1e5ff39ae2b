"""Prepares the directory of one task: its tree, its files, and the specification that its supervisor reads."""

from __future__ import annotations

import base64
import binascii
import errno
import json
import os
import posixpath
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.containers.checkpoint_folder import prepare_checkpoints
from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import (
    CERTIFICATES,
    SHARED_FS,
    ContainerPaths,
    NodeFacts,
    task_environment,
)
from agent_bootstrap.agent.containers.mounts import (
    check_targets,
    checked_mounts,
    identities,
    run_as,
    user_error,
)
from agent_bootstrap.agent.identity import named_after, own_identity, shown, task_identity
from agent_bootstrap.agent.runtimes.accounts import supplementary_groups, write_accounts
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.bubblewrap import STAGE, command
from agent_bootstrap.agent.runtimes.cgroups import Cgroups, limited
from agent_bootstrap.agent.runtimes.devices import device_groups, task_devices, task_gpus
from agent_bootstrap.agent.runtimes.gpu_tools import write_gpu_tools
from agent_bootstrap.agent.runtimes.interpreter import choose_python
from agent_bootstrap.agent.runtimes.isolation import Isolation
from agent_bootstrap.agent.runtimes.mount_list import Mount, for_spec, staged_sources
from agent_bootstrap.agent.runtimes.seccomp_filter import compile_filter
from agent_bootstrap.agent.runtimes.task_root import TaskMounts, task_mounts
from agent_bootstrap.bind_rules import HostPaths, resolved
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.protocol import Bind, ContainerSpec, ExitFailure, FileItem, IsolationKind
from windlass.base.files import write_atomic
from windlass.base.tls.trust import NO_VERIFY

_TREE = (
    ("info", 0o755),
    ("bin", 0o755),
    ("pythonuserbase", 0o700),
    ("workdir", 0o700),
    ("train", 0o700),
    ("train/model", 0o700),
)
_GIVEN = ("rundet", "tmp", "files", "accounts")
"""The task's own: its user owns it. The folder around stays the agent's alone."""
_OUR_FAULT = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What is the same for every task of this agent."""

    isolation: Isolation
    rules: HostPaths = field(default_factory=lambda: HostPaths(file="agent.yaml"))
    """What of the machine the agent lets tasks mount; its own folders are `forbidden`."""
    cgroups: Cgroups = field(default_factory=Cgroups)
    python: str = ""
    """Of tasks that choose none. Empty: the agent's own."""
    prologue: tuple[str, ...] = ()
    """Before that of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """A task whose files are in its directory, before anything of the way it runs is decided."""

    spec: ContainerSpec
    """Named after whom it runs as."""
    user_binds: tuple[Bind, ...]
    """Checked; sources are without links."""
    file_binds: tuple[Bind, ...]
    """Files outside of the task's own tree."""
    work_dir: str
    """As the task spells it."""


def prepare(place: ContainerDir, spec: ContainerSpec, node: NodeFacts, ground: Ground) -> None:
    """Everything up to spec.json. Raises StartRefused. Blocks: files may be large."""
    with refused_in_words():
        _prepare(place, spec, node, ground)


def _prepare(place: ContainerDir, spec: ContainerSpec, node: NodeFacts, ground: Ground) -> None:
    isolation = ground.isolation
    layout = ContainerPaths(place, isolation.private_root)
    agent = own_identity()
    who = _identity(spec.options.os_user, agent, isolation)
    python = choose_python(spec, ground.python, ground.prologue, agent=agent, task=who)
    if isolation.private_root:
        spec = spec.model_copy(update={"binds": (*spec.binds, *python.user_binds)})
    laid = lay_out(layout, spec, node, ground.rules, agent=agent, task=who)
    spec = laid.spec
    gpus = task_gpus(spec, node)
    write_gpu_tools(place.rundet / "bin", node.gpus, gpus)
    python.write(place)
    document: dict[str, Any] = {
        "way": str(isolation.kind),
        "dir": str(place.path),
        "work_dir": laid.work_dir,
        "argv": _argv(spec, layout, alone=python.is_foreign),
        "env": task_environment(spec, node, layout, python.interpreter),
        **limited(
            place, spec.options.limits, ground.cgroups, own_user=_has_own_user(isolation, agent)
        ),
        "user": None,
        "scratch": str(place.scratch or ""),
    }
    if isolation.private_root:
        file_binds = [*laid.file_binds, *_account_files(place, who, laid.work_dir)]
        file_binds += python.own_binds
        check_targets(laid.user_binds, [bind.target for bind in file_binds])
        document["mounted"] = identities(laid.user_binds)
        wishes = TaskMounts(
            binds=_split(laid.user_binds, spec.options.host_paths)[1],
            cluster_binds=_split(laid.user_binds, spec.options.host_paths)[0],
            own_binds=file_binds,
            devices=task_devices(gpus),
            forbidden=(*ground.rules.forbidden, *spec.options.host_paths.forbidden),
            shm_bytes=spec.options.shm_bytes or 0,
            who=who,
        )
        document |= _jail(place, isolation, task_mounts(place, wishes), who=who, agent=agent)
        if who.uid != agent.uid:
            give_to(who, *map(place.path.joinpath, _GIVEN))
    write_atomic(place.spec, json.dumps(document).encode())


def _has_own_user(isolation: Isolation, agent: OsUser) -> bool:
    """The task is alone in its user namespace."""
    is_plain = isolation.kind is IsolationKind.NAMESPACES and agent.uid != 0
    return is_plain or isolation.kind is IsolationKind.BUBBLEWRAP


@contextmanager
def refused_in_words() -> Iterator[None]:
    """An OSError on the way becomes StartRefused: the user's fault, unless the machine is at its limits."""
    try:
        yield
    except OSError as error:
        failure = ExitFailure.ABORTED if error.errno in _OUR_FAULT else ExitFailure.TASK_ERROR
        where = f"{error.filename}: " if error.filename else ""
        raise StartRefused(failure, f"cannot prepare the task: {where}{error.strerror}") from error


def lay_out(
    layout: ContainerPaths,
    spec: ContainerSpec,
    node: NodeFacts,
    rules: HostPaths,
    *,
    agent: OsUser,
    task: OsUser,
) -> LaidOut:
    """Make the tree, the files and the storage of a task, and check its mounts. Raises StartRefused, OSError."""
    spec = named_after(task, spec)
    _make_tree(layout.place, node.scratch)
    _write_certificates(node, layout)
    if spec.options.checkpoints is not None:
        prepare_checkpoints(
            spec.options.checkpoints,
            spec.options.host_paths,
            cluster_id=node.cluster_id,
            agent=agent,
            task=task,
        )
    else:
        _make_storage(spec.binds, agent=agent, task=task)
    user_binds = checked_mounts(spec, rules, agent=agent, task=task)
    file_binds = tuple(bind for item in spec.files if (bind := _write_file(item, layout)))
    work_dir = _make_work_dir(spec.work_dir, layout)
    return LaidOut(spec=spec, user_binds=user_binds, file_binds=file_binds, work_dir=work_dir)


def _make_storage(binds: Iterable[Bind], *, agent: OsUser, task: OsUser) -> None:
    """The checkpoint storage as masters of earlier versions name it: made if missing, as far as the task could."""
    for bind in binds:
        if (
            bind.target != SHARED_FS
            or not bind.source.startswith("/")
            or Path(bind.source).exists()
        ):
            continue
        if task.uid == agent.uid:
            Path(bind.source).mkdir(parents=True, exist_ok=True)
        else:
            run_as(task, ["mkdir", "-p", "--", bind.source])


def _write_certificates(node: NodeFacts, layout: ContainerPaths) -> None:
    """Readable for everybody: they are no secret, and the task's user owns the file."""
    path = layout.on_host(CERTIFICATES)
    if path is None or node.certificates in ("", NO_VERIFY):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, node.certificates.encode(), mode=0o644)


def _identity(wanted: OsUser | None, agent: OsUser, isolation: Isolation) -> OsUser:
    """Raises StartRefused."""
    if isolation.private_root:
        return task_identity(wanted, agent)
    # The interpreter and the task's folder may be out of reach for anybody else.
    if wanted is not None and wanted.uid != agent.uid:
        raise user_error(
            f"The agent cannot run tasks as {shown(wanted)}: it has no namespaces and no bubblewrap, "
            f"so tasks run as {shown(agent)}"
        )
    return agent


def _split(binds: Iterable[Bind], rules: HostPaths) -> tuple[list[Bind], list[Bind]]:
    """Those of the cluster's own configuration, and those of the user: also what is below one of the cluster's."""
    cluster = {resolved(path) for path in rules.cluster}
    by_cluster: list[Bind] = []
    by_user: list[Bind] = []
    for bind in binds:
        (by_cluster if bind.source in cluster else by_user).append(bind)
    return by_cluster, by_user


def _account_files(place: ContainerDir, who: OsUser, home: str) -> list[Bind]:
    copies = write_accounts(place.path / "accounts", who, home)
    return [Bind(source=str(copy), target=path, read_only=True) for copy, path in copies]


def give_to(who: OsUser, *trees: Path) -> None:
    """Nothing runs in them yet, so that no link can be put in the way; none is followed all the same."""
    for tree in trees:
        if not tree.exists():
            continue
        for folder, folders, files in os.walk(tree):
            for name in (*folders, *files):
                os.chown(Path(folder, name), who.uid, who.gid, follow_symlinks=False)
        os.chown(tree, who.uid, who.gid, follow_symlinks=False)


def _make_tree(place: ContainerDir, scratch: Path | None) -> None:
    place.rundet.mkdir(mode=0o700)
    place.make_tmp(scratch)
    for name, mode in _TREE:
        (place.rundet / name).mkdir()
        (place.rundet / name).chmod(mode)


def _write_file(item: FileItem, layout: ContainerPaths) -> Bind | None:
    """Write one file where the task will find it; a bind, if that is not in the task's own tree."""
    if not item.path.startswith("/") or ".." in item.path.split("/"):
        raise user_error(f"file {item.path}: the path must be absolute and without ..")
    try:
        content = base64.b64decode(item.content_b64, validate=True)
    except binascii.Error as error:
        raise user_error(f"file {item.path}: its content is not base64") from error
    own = layout.on_host(item.path)
    target = own or layout.place.files / item.path.lstrip("/")
    _make_parents(target, layout.place.path)
    write_atomic(target, content, mode=item.mode)
    return None if own else Bind(source=str(target), target=posixpath.normpath(item.path))


def _make_parents(target: Path, top: Path) -> None:
    """Private directories, each with mode 0700 (`mkdir(parents=True)` would give the inner ones the umask's)."""
    missing = [
        parent for parent in target.parents if parent.is_relative_to(top) and not parent.exists()
    ]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700)


def _make_work_dir(work_dir: str, layout: ContainerPaths) -> str:
    if not work_dir.startswith("/"):
        raise user_error(f"work_dir {work_dir}: must be an absolute path")
    own = layout.on_host(work_dir)
    if own is not None:
        _make_parents(own / "x", layout.place.path)
    return layout.seen_by_task(work_dir)


def _argv(spec: ContainerSpec, layout: ContainerPaths, *, alone: bool) -> list[str]:
    """`alone`: variables that are meant for another Python must not reach ours."""
    if not spec.entrypoint:
        raise user_error("the entrypoint is empty")
    first, *rest = (layout.translate(word) for word in spec.entrypoint)
    if first != "{python}":
        return [first, *rest]
    return [sys.executable, *(["-E"] if alone else []), *rest]


def _jail(
    place: ContainerDir,
    isolation: Isolation,
    mounts: Sequence[Mount],
    *,
    who: OsUser,
    agent: OsUser,
) -> dict[str, Any]:
    """What the specification says to supervisor and task_init.py of the jail around a task. Raises OSError."""
    is_root = agent.uid == 0
    devices = [mount.target for mount in mounts if mount.kind == "device"]
    groups = sorted({*supplementary_groups(who), *device_groups(devices)})
    user = {"uid": who.uid, "gid": who.gid, "groups": groups}
    document: dict[str, Any] = {"seccomp": _seccomp(), "user": user if is_root else None}
    if isolation.kind is IsolationKind.BUBBLEWRAP:
        words = command(isolation.program, mounts, staged=is_root)
        staged = staged_sources(mounts) if is_root else []
        return document | {"bubblewrap": words, "stage": STAGE, "staged": staged}
    (place.path / "root").mkdir(mode=0o755)
    own = {"user_namespace": not is_root, "ids": [who.uid, who.gid], "mounts": for_spec(mounts)}
    return document | own


@cache
def _seccomp() -> str:
    return base64.b64encode(compile_filter()).decode()
