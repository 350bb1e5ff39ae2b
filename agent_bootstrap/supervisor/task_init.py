"""The process right above the task: builds its root, starts it, passes signals on, reaps, takes its exit code.

usage: python -I -S task_init.py SPEC_FILE        (standard library only)

With namespaces it is pid 1 of the task's pid namespace. It is needed: a pid 1 without handlers ignores TERM, and nobody
else reaps orphans there. Without namespaces it does the same, less the root. What happens is told
on file descriptor 3, a line of JSON each: {"namespace": bool} once the task runs and {"exit_code": int} when it has
ended, or {"failure": "task_error" | "aborted", "message": str}.

The private root is a tmpfs with a recursive bind of every entry of `/` but /tmp, /run and /proc. /run is repeated
entry by entry around a private /run/determined; nothing on the host is touched or has to exist there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import stat
import sys
from typing import Any, NoReturn

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 1024, 2048, 1 << 21
KEPT_FLAGS = (
    (os.ST_NOSUID, MS_NOSUID),
    (os.ST_NODEV, MS_NODEV),
    (os.ST_NOEXEC, MS_NOEXEC),
    (os.ST_NOATIME, MS_NOATIME),
    (os.ST_NODIRATIME, MS_NODIRATIME),
    (os.ST_RELATIME, MS_RELATIME),
)
"""A remount in a user namespace must repeat the flags that the owner of the mount has locked."""
PR_SET_PDEATHSIG = 1
TOLD_FD = 3
MAX_REPEATED_ENTRIES = 2000
"""A mount point in a host directory is made by repeating that directory; larger ones are refused."""
RELAYED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
PRIVATE = ("/tmp", "/run/determined")  # noqa: S108  (of the task, not of the host)

libc = ctypes.CDLL(None, use_errno=True)


class SetupError(Exception):
    """The task cannot be set up because of what its user asked for."""


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    def encode(text: str | None) -> bytes | None:
        return None if text is None else os.fsencode(text)

    arguments = (encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(data))
    if libc.mount(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"mount {source} on {target}")


class Root:
    """The private root while it is built. Paths of the task are absolute; `at()` says where they are for now."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._dir: str = spec["dir"]
        self._own = {"/", "/run"}
        """Directories that are ours, not the host's: new entries can be made in them."""
        self._bound: list[str] = []

    def at(self, path: str) -> str:
        return os.path.join(self._dir, "root") + path

    def build(self) -> None:
        os.makedirs(self.at(""), exist_ok=True)
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", self.at(""), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m")
        self._repeat("/", {"run", "tmp", "proc"})
        os.mkdir(self.at("/run"))
        self._mount_shared_memory()
        self._repeat("/run", {"determined", "sshd"})
        os.mkdir(self.at("/run/sshd"), 0o755)
        for name, target in zip(("tmp", "rundet"), PRIVATE, strict=True):
            self._bind(os.path.join(self._dir, name), target)
        os.makedirs(self.at("/proc"), exist_ok=True)
        mount("proc", self.at("/proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        for source, target, read_only in self._spec["binds"]:
            self._bind_for_user(source, target, read_only)
        self._hide(os.path.realpath(os.path.dirname(self._dir)))
        os.chroot(self.at(""))

    def _mount_shared_memory(self) -> None:
        """A /dev/shm of the task's own, as large as it may be. A machine without one gets none."""
        size, path = self._spec.get("shm_bytes"), self.at("/dev/shm")  # noqa: S108
        if size and os.path.isdir(path) and not os.path.islink(path):
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size}")

    def _repeat(self, directory: str, skip: set[str]) -> None:
        for name in sorted(os.listdir(directory)):
            if name in skip:
                continue
            path = os.path.join(directory, name)
            try:
                self._bind(path, path)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.ENOENT):
                    raise

    def _bind(self, source: str, target: str) -> None:
        mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), self.at(target))
            return
        make_mount_point(self.at(target), is_dir=stat.S_ISDIR(mode))
        mount(source, self.at(target), None, MS_BIND | MS_REC)

    def _bind_for_user(self, source: str, target: str, read_only: bool) -> None:
        source = os.path.realpath(source)
        if not under(target, PRIVATE):
            # The new root mirrors the host; a link in the way must be followed there, not out of the new root.
            target = os.path.realpath(target)
        try:
            if not under(target, (*PRIVATE, *self._bound)):
                self._make_room(target)
            self._bind(source, target)
            if read_only:
                self._make_read_only(self.at(target))
        except OSError as error:
            raise SetupError(f"cannot mount {source} at {target}: {error.strerror}") from error
        self._bound.append(target)

    def _make_room(self, target: str) -> None:
        """Let `target` be made without making it on the host: its nearest existing directory becomes a copy of ours."""
        nearest = os.path.dirname(target)
        if os.path.lexists(self.at(target)):
            return
        while not os.path.isdir(self.at(nearest)):
            nearest = os.path.dirname(nearest)
        if nearest in self._own or not os.path.isdir(nearest):
            return
        names = os.listdir(nearest)
        if len(names) > MAX_REPEATED_ENTRIES:
            raise SetupError(
                f"cannot mount at {target}: it does not exist on this machine, and {nearest} is too large to be "
                f"extended ({len(names)} entries); create {target} on the machine"
            )
        mount("tmpfs", self.at(nearest), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
        self._own.add(nearest)
        self._repeat(nearest, set())

    def _make_read_only(self, path: str) -> None:
        current = os.statvfs(path).f_flag
        kept = sum(flag for held, flag in KEPT_FLAGS if current & held)
        mount("none", path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)

    def _hide(self, containers: str) -> None:
        """The directories of other tasks hold their keys and run under the same user: not for this task's eyes."""
        if not under(containers, PRIVATE) and os.path.isdir(self.at(containers)):
            mount("tmpfs", self.at(containers), "tmpfs", MS_RDONLY, "mode=700,size=4k")


def under(path: str, parents: tuple[str, ...]) -> bool:
    return any(path == parent or path.startswith(parent + "/") for parent in parents)


def make_mount_point(path: str, *, is_dir: bool) -> None:
    if is_dir:
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def enter(spec: dict[str, Any]) -> None:
    """Build the root, if there is to be one, and go to the work directory."""
    if spec["namespace"]:
        Root(spec).build()
    try:
        os.chdir(spec["work_dir"])
    except OSError as error:
        raise SetupError(f"work_dir {spec['work_dir']}: {error.strerror}") from error


def start(spec: dict[str, Any]) -> int:
    """Fork and exec the task. A program that is missing becomes 127, one that cannot be run 126, as in a shell."""
    failed_read, failed_write = os.pipe()
    me = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(failed_read)
        exec_task(spec, me, failed_write)
    os.close(failed_write)
    for signum in RELAYED:
        signal.signal(signum, lambda number, _: pass_on(child, number))
    number = os.read(failed_read, 16)  # its end: the exec went well
    os.close(failed_read)
    if number:
        os.write(2, f"{spec['argv'][0]}: {os.strerror(int(number))}\n".encode())
    return child


def exec_task(spec: dict[str, Any], expected_parent: int, failed: int) -> NoReturn:
    try:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != expected_parent:
            os._exit(1)
        for signum in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606  (no shell is wanted)
    except OSError as error:
        os.write(failed, b"%d" % (error.errno or errno.EINVAL))
        os._exit(127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126)
    finally:
        os._exit(126)


def pass_on(child: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signum)


def reap_until(child: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def say(message: dict[str, Any]) -> None:
    os.write(TOLD_FD, json.dumps(message).encode() + b"\n")


def main() -> int:
    os.set_inheritable(TOLD_FD, False)
    os.umask(0o022)
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    try:
        enter(spec)
        child = start(spec)
    except SetupError as error:
        say({"failure": "task_error", "message": str(error)})
        return 125
    except OSError as error:
        say({"failure": "aborted", "message": f"{error.filename or 'start'}: {error.strerror}"})
        return 125
    say({"namespace": spec["namespace"]})
    code = reap_until(child)
    say({"exit_code": code})
    return code


if __name__ == "__main__":
    # `os._exit`: as pid 1 there is nothing to clean up, and interpreter shutdown costs milliseconds.
    os._exit(main())
