"""Prepares the directory of one task: its tree, its files, and the specification that its supervisor reads."""

from __future__ import annotations

import base64
import binascii
import errno
import json
import os
import posixpath
import sys
from collections.abc import Iterable
from pathlib import Path

import agent_bootstrap
from agent_bootstrap.agent.container_dir import ContainerDir
from agent_bootstrap.agent.environment import (
    SHARED_FS,
    Layout,
    Node,
    task_environment,
)
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.isolation import Isolation
from agent_bootstrap.protocol import Bind, ContainerSpec, ExitFailure, FileItem
from windlass.base.files import write_atomic

_TREE = (
    ("info", 0o755),
    ("pythonuserbase", 0o700),
    ("workdir", 0o700),
    ("train", 0o700),
    ("train/model", 0o700),
)
_HIDDEN_BY_PRIVATE_ROOT = ("/tmp", "/run/determined", "/run/sshd")  # noqa: S108
_OUR_FAULT = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)


def prepare(place: ContainerDir, spec: ContainerSpec, node: Node, isolation: Isolation) -> None:
    """Everything up to spec.json. Raises StartRefused. Blocks: files may be large."""
    layout = Layout(place, isolation.private_root)
    try:
        _make_tree(place)
        file_binds = [bind for item in spec.files if (bind := _write_file(item, layout))]
        binds = [*_interpreter_binds(isolation), *spec.binds, *file_binds]
        for bind in spec.binds:
            _check_bind(bind)
        work_dir = _make_work_dir(spec.work_dir, layout)
        document = {
            "dir": str(place.path),
            "namespace": isolation.private_root,
            "unshare": list(isolation.unshare),
            "work_dir": work_dir,
            "argv": _argv(spec, layout),
            "env": task_environment(spec, node, layout),
            "shm_bytes": spec.options.shm_bytes,
            "binds": [[bind.source, bind.target, bind.read_only] for bind in binds]
            if isolation.private_root
            else [],
        }
        write_atomic(place.spec, json.dumps(document).encode())
    except OSError as error:
        failure = ExitFailure.ABORTED if error.errno in _OUR_FAULT else ExitFailure.TASK_ERROR
        where = f"{error.filename}: " if error.filename else ""
        raise StartRefused(failure, f"cannot prepare the task: {where}{error.strerror}") from error


def _make_tree(place: ContainerDir) -> None:
    place.rundet.mkdir(mode=0o700)
    place.tmp.mkdir()
    place.tmp.chmod(0o1777)
    for name, mode in _TREE:
        (place.rundet / name).mkdir()
        (place.rundet / name).chmod(mode)


def _write_file(item: FileItem, layout: Layout) -> Bind | None:
    """Write one file where the task will find it; a bind, if that is not in the task's own tree."""
    if not item.path.startswith("/") or ".." in item.path.split("/"):
        raise _user_error(f"file {item.path}: the path must be absolute and without ..")
    try:
        content = base64.b64decode(item.content_b64, validate=True)
    except binascii.Error as error:
        raise _user_error(f"file {item.path}: its content is not base64") from error
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


def _make_work_dir(work_dir: str, layout: Layout) -> str:
    if not work_dir.startswith("/"):
        raise _user_error(f"work_dir {work_dir}: must be an absolute path")
    own = layout.on_host(work_dir)
    if own is not None:
        _make_parents(own / "x", layout.place.path)
    return layout.seen_by_task(work_dir)


def _check_bind(bind: Bind) -> None:
    """The storage of checkpoints is made if it is missing; anything else that is missing is a mistake."""
    if not bind.target.startswith("/") or posixpath.normpath(bind.target) == "/":
        raise _user_error(
            f"bind mount of {bind.source}: {bind.target} is not a usable container path"
        )
    source = Path(bind.source)
    if not source.is_absolute():
        raise _user_error(f"bind mount {bind.source}: host_path must be absolute")
    if source.exists():
        return
    if bind.target != SHARED_FS:
        raise _user_error(
            f"bind mount {bind.source} at {bind.target}: it does not exist on this machine"
        )
    source.mkdir(parents=True, exist_ok=True)


def _interpreter_binds(isolation: Isolation) -> list[Bind]:
    """The interpreter and our own code, where a private /tmp or /run would hide them."""
    if not isolation.private_root:
        return []
    checkout = Path(agent_bootstrap.__file__).resolve().parent.parent
    executable = Path(os.path.realpath(sys.executable))
    wanted = {sys.prefix, sys.base_prefix, str(checkout), str(executable.parent.parent)}
    wanted |= {path for path in sys.path if path and Path(path).is_dir()}
    return [Bind(source=path, target=path) for path in _topmost(filter(_is_hidden, wanted))]


def _is_hidden(path: str) -> bool:
    return any(path.startswith(parent + "/") for parent in _HIDDEN_BY_PRIVATE_ROOT)


def _topmost(paths: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(paths):
        if not any(path == parent or path.startswith(parent + "/") for parent in kept):
            kept.append(path)
    return kept


def _argv(spec: ContainerSpec, layout: Layout) -> list[str]:
    if not spec.entrypoint:
        raise _user_error("the entrypoint is empty")
    first, *rest = (layout.translate(word) for word in spec.entrypoint)
    return [sys.executable if first == "{python}" else first, *rest]


def _user_error(message: str) -> StartRefused:
    return StartRefused(ExitFailure.TASK_ERROR, message)
