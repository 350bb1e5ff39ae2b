"""The step between supervisor and task: the forked child gives up its rights and turns into the first program."""

from __future__ import annotations

import base64
import fcntl
import os
import signal
import stat
import sys

from agent_bootstrap.supervisor import cgroup
from agent_bootstrap.supervisor.kernel import (
    CLONE_NEWNS,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_REC,
    MS_SLAVE,
    die_with_parent,
    mount,
    opened,
    unshare,
)
from agent_bootstrap.supervisor.privileges import (
    CAP_SETFCAP,
    become_user,
    drop_capabilities,
    keep_to_itself,
    limit,
    no_new_privileges,
)
from agent_bootstrap.supervisor.protocol import FILTER_FD, SPEC_FD, TOLD_FD

TYPE_CHECKING = False  # that of `typing` would have it imported, which takes milliseconds
if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
INIT, ENGINE_WATCH = os.path.join(HERE, "task_init.py"), os.path.join(HERE, "engine_watch.py")


def become_first(spec: dict[str, Any], expected_parent: int, fds: list[int]) -> None:
    """In the child: turn into the first program, which dies with its parent. Never returns.

    `fds` become standard output, standard error, and what task_init.py speaks to and reads from.
    """
    try:
        os.umask(0o022)
        os.setsid()
        die_with_parent(expected_parent)
        if spec.get("cgroup"):
            cgroup.enter(spec["cgroup"])
        for signum in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_DFL)
        _arrange(fds, spec)
        limit(spec["limits"])
        first = ENGINE_WATCH if spec["way"] == "engine" else INIT
        program = [sys.executable, "-I", "-S", first]
        if spec["way"] == "bubblewrap":
            _give_up_rights(spec)
            die_with_parent(expected_parent)
            program = [*spec["bubblewrap"], *program]
        if spec["way"] == "command":
            os.close(SPEC_FD)  # for us alone
            _become_user_of_command(spec)
            die_with_parent(expected_parent)
            command = spec["command"]
            os.execve(command[0], command, spec["command_env"])  # noqa: S606  (no shell is wanted)
        os.execvp(program[0], program)  # noqa: S606  (no shell is wanted)
    except OSError as error:
        what = error.filename or "first program"
        os.write(2, f"cannot start {what}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _arrange(fds: list[int], spec: dict[str, Any]) -> None:
    """The task's descriptors in their places. All others close by themselves."""
    wanted: dict[int, int] = dict(zip((1, 2, TOLD_FD, SPEC_FD), fds, strict=True))
    if spec["way"] == "bubblewrap":
        wanted[FILTER_FD] = _filled_pipe(base64.b64decode(spec["seccomp"]))
    # Duplicate above the targets first: a pipe end may itself be one of them.
    safe = {to: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for to, fd in wanted.items()}
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for to, fd in safe.items():
        os.dup2(fd, to)


def _filled_pipe(content: bytes) -> int:
    """The read end; a filter is far smaller than a pipe."""
    read_end, write_end = os.pipe()
    os.write(write_end, content)
    os.close(write_end)
    return read_end


def _give_up_rights(spec: dict[str, Any]) -> None:
    """bubblewrap itself runs as the task's user: what it mounts for the user is what this user may reach."""
    user = spec["user"]
    if user is not None:
        _lay_out(spec["stage"], spec["staged"])
        if user["uid"] == 0:
            # Linux lets only who has it map root into a user namespace. bubblewrap takes it away again.
            become_user(user, but=CAP_SETFCAP)
        else:
            become_user(user)
            drop_capabilities()
    no_new_privileges()
    keep_to_itself()


def _become_user_of_command(spec: dict[str, Any]) -> None:
    """Apptainer or Enroot run as the task's user; rights that they may have by set-user-id programs are theirs."""
    user = spec["user"]
    if user is None:
        return
    _lay_out(spec["stage"], spec["staged"])
    for source, target in spec["replaced"]:
        mount(source, target, None, MS_BIND)
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])


def _lay_out(stage: str, sources: list[tuple[str, bool]]) -> None:
    """Put the agent's own things for the task where another user can reach them; nobody but this process sees it."""
    os.makedirs(stage, mode=0o755, exist_ok=True)
    unshare(CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_SLAVE)
    mount("tmpfs", stage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for number, (source, exact) in enumerate(sources):
        target = os.path.join(stage, str(number))
        with opened(source, exact=exact) as held:
            if stat.S_ISDIR(os.stat(held).st_mode):
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            mount(held, target, None, MS_BIND | MS_REC)
