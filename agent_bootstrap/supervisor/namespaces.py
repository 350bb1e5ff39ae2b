"""The built-in way into a jail: namespaces, a root of our own, and no way back. For machines without bubblewrap."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import sys
from typing import Any

from agent_bootstrap.supervisor.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    PR_SET_PDEATHSIG,
    prctl,
    unshare,
)
from agent_bootstrap.supervisor.private_root import build_root
from agent_bootstrap.supervisor.privileges import (
    become_user,
    drop_capabilities,
    filter_calls,
    keep_to_itself,
    no_new_privileges,
)


def fork_first_process(spec: dict[str, Any]) -> tuple[int, int]:
    """Its pid, or 0 in process 1 of a new pid namespace; and a pipe that ends with its parent. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    if spec["user_namespace"]:
        unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)
        _map_one(inside=(0, 0), outside=(uid, gid))
    else:
        unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(read_end)
        return child, write_end
    os.close(write_end)
    os.set_blocking(read_end, False)
    return 0, read_end


def enter_namespaces(spec: dict[str, Any], parent: int) -> None:
    """Called by process 1: after it, this process has nothing that a task may not have. Raises SetupError, OSError.

    `parent` is the pipe of `fork_first_process`.
    """
    _die_with(parent)
    # What the user mounts over the interpreter's files must not become our code.
    sys.path.clear()
    build_root(os.path.join(spec["dir"], "root"), spec["mounts"], spec["user"])
    if spec["user_namespace"]:
        # devpts wants a root in its user namespace; the task wants its own number.
        uid, gid = spec["ids"]
        unshare(CLONE_NEWUSER)
        _map_one(inside=(uid, gid), outside=(0, 0))
    become_user(spec["user"])
    drop_capabilities()
    _die_with(parent)
    no_new_privileges()
    keep_to_itself()
    filter_calls(base64.b64decode(spec["seccomp"]))
    os.close(parent)


def _die_with(parent: int) -> None:
    """Our parent is outside of the pid namespace: it has no number here by which to see that it lives."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(BlockingIOError):
        if not os.read(parent, 1):
            os._exit(1)


def _map_one(*, inside: tuple[int, int], outside: tuple[int, int]) -> None:
    """One user and one group of the new user namespace."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{inside[0]} {outside[0]} 1")
    _write("/proc/self/gid_map", f"{inside[1]} {outside[1]} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
