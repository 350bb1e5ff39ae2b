"""Builds a task's root from a list of mounts, where bubblewrap is not there to do it.

The list is made by `agent/runtimes/task_root.py`; each entry is a mapping with a `kind`. We first move to an empty
root, with the machine's at /.host, and then work inside: no link in a task's own files can lead a mount out of it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from agent_bootstrap.supervisor.kernel import (
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NODIRATIME,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_RELATIME,
    MS_REMOUNT,
    MS_SLAVE,
    detach,
    mount,
    opened,
    pivot_root,
)
from agent_bootstrap.supervisor.protocol import SetupError

HOST = "/.host"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
READ_ONLY_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
KEPT_FLAGS = (
    (os.ST_NOSUID, MS_NOSUID),
    (os.ST_NODEV, MS_NODEV),
    (os.ST_NOEXEC, MS_NOEXEC),
    (os.ST_NOATIME, MS_NOATIME),
    (os.ST_NODIRATIME, MS_NODIRATIME),
    (os.ST_RELATIME, MS_RELATIME),
)
"""A remount in a user namespace must repeat the flags that the owner of the mount has locked."""


def build_root(directory: str, mounts: list[dict[str, Any]], user: dict[str, Any] | None) -> None:
    """Leave the machine's root for one of our own. `directory` is any empty one; `user` is who the task will be."""
    mount("none", "/", None, MS_REC | MS_SLAVE)
    mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m" + _owner(user))
    os.mkdir(directory + HOST)
    pivot_root(directory, directory + HOST)
    os.chdir("/")
    builder = _Builder(user)
    for entry in mounts:
        builder.add(entry)
    detach(HOST)
    os.rmdir(HOST)
    _remount("/", MS_RDONLY)


class _Builder:
    """Whatever is made on the way is made with the rights of the user, so that no link of his leads ours astray."""

    def __init__(self, user: dict[str, Any] | None) -> None:
        self._user = user

    def add(self, entry: dict[str, Any]) -> None:
        """One entry: see `Mount` of `mount_list.py`."""
        getattr(self, "_" + entry["kind"])(entry)

    def _bind(self, entry: dict[str, Any]) -> None:
        source, target = entry["source"], entry["target"]
        try:
            rights = self._rights_of_the_user() if entry["by_user"] else contextlib.nullcontext()
            with contextlib.ExitStack() as held:
                with rights:
                    path = held.enter_context(opened(source, exact=entry["exact"], top=HOST))
                self._bind_now(HOST + path, target, read_only=entry["read_only"])
        except OSError as error:
            if not (entry["by_user"] or entry["exact"]):
                raise
            raise SetupError(f"cannot mount {source} at {target}: {error.strerror}") from error

    def _bind_now(self, source: str, target: str, *, read_only: bool) -> None:
        self._make_mount_point(target, is_dir=os.path.isdir(source))
        mount(source, target, None, MS_BIND | MS_REC)
        for path in _mounts_at(os.path.realpath(target)):
            _remount(path, MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0))

    def _device(self, entry: dict[str, Any]) -> None:
        path = entry["target"]
        self._make_mount_point(path, is_dir=os.path.isdir(HOST + path))
        mount(HOST + path, path, None, MS_BIND | MS_REC)
        for each in _mounts_at(path):
            _remount(each, MS_NOSUID | MS_NOEXEC)

    def _tmpfs(self, entry: dict[str, Any]) -> None:
        self._make_mount_point(entry["target"], is_dir=True)
        options = f"mode={entry['mode']:o}" + _owner(self._user)
        if entry["size"]:
            options += f",size={entry['size']}"
        mount("tmpfs", entry["target"], "tmpfs", MS_NOSUID | MS_NODEV, options)

    def _directory(self, entry: dict[str, Any]) -> None:
        self._make_mount_point(entry["target"], is_dir=True)

    def _link(self, entry: dict[str, Any]) -> None:
        with self._rights_of_the_user():
            os.makedirs(os.path.dirname(entry["target"]), exist_ok=True)
            os.symlink(entry["source"], entry["target"])

    def _seal(self, entry: dict[str, Any]) -> None:
        _remount(entry["target"], MS_RDONLY)

    def _hide(self, entry: dict[str, Any]) -> None:
        """Shown empty: a folder, or a file."""
        is_folder = entry["source"] == "folder"
        self._make_mount_point(entry["target"], is_dir=is_folder)
        if is_folder:
            mount("tmpfs", entry["target"], "tmpfs", MS_RDONLY | MS_NOSUID, "mode=555,size=4k")
        else:
            mount(HOST + "/dev/null", entry["target"], None, MS_BIND)

    def _proc(self, _: dict[str, Any]) -> None:
        self._make_mount_point("/proc", is_dir=True)
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        for path in _existing("/proc", READ_ONLY_PROC):
            mount(path, path, None, MS_BIND | MS_REC)
            _remount(path, MS_RDONLY)

    def _dev(self, entry: dict[str, Any]) -> None:
        self._tmpfs({"target": "/dev", "mode": 0o755, "size": 65536})
        for name in DEVICES:
            self._device({"target": f"/dev/{name}"})
        for name, to in DEVICE_LINKS.items():
            self._link({"target": f"/dev/{name}", "source": to})
        self._make_mount_point("/dev/pts", is_dir=True)
        options = "newinstance,ptmxmode=0666,mode=620"
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options)
        self._tmpfs({"target": "/dev/shm", "mode": 0o1777, "size": entry["size"]})  # noqa: S108

    def _make_mount_point(self, path: str, *, is_dir: bool) -> None:
        """The mount point, where it is missing."""
        with self._rights_of_the_user():
            if is_dir:
                os.makedirs(path, exist_ok=True)
            elif not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))

    @contextlib.contextmanager
    def _rights_of_the_user(self) -> Iterator[None]:
        """What a user names is opened as this user: a path that is closed to him stays so."""
        if self._user is None:
            yield
            return
        groups, gid, uid = os.getgroups(), os.getegid(), os.geteuid()
        os.setgroups(self._user["groups"])
        os.setegid(self._user["gid"])
        os.seteuid(self._user["uid"])
        try:
            yield
        finally:
            os.seteuid(uid)
            os.setegid(gid)
            os.setgroups(groups)


def _existing(folder: str, names: Sequence[str]) -> list[str]:
    return [path for name in names if os.path.exists(path := f"{folder}/{name}")]


def _owner(user: dict[str, Any] | None) -> str:
    return f",uid={user['uid']},gid={user['gid']}" if user else ""


def _remount(path: str, flags: int) -> None:
    current = os.statvfs(path).f_flag
    kept = sum(flag for held, flag in KEPT_FLAGS if current & held and not flags & flag)
    if current & os.ST_RDONLY:
        kept |= MS_RDONLY
    mount("none", path, None, MS_REMOUNT | MS_BIND | kept | flags)


def _mounts_at(path: str) -> list[str]:
    """The mount at `path` and those below it."""
    found = []
    with open(HOST + "/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            point = _unescaped(line.split(" ")[4])
            if point == path or point.startswith(path + "/"):
                found.append(point)
    return found


def _unescaped(text: str) -> str:
    """Blanks and the like are written as octal numbers there."""
    for octal, character in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(octal, character)
    return text
