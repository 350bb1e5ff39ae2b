"""Give up for good what a task must not have: its starter's user, capabilities, system calls, ways to other tasks."""

from __future__ import annotations

import ctypes
import errno
import os
import resource

from agent_bootstrap.supervisor.kernel import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_SECCOMP,
    SECCOMP_MODE_FILTER,
    SYS_LANDLOCK_CREATE_RULESET,
    SYS_LANDLOCK_RESTRICT_SELF,
    check,
    libc,
    prctl,
)

TYPE_CHECKING = False  # that of `typing` would have it imported, which takes milliseconds
if TYPE_CHECKING:
    from typing import Any

MAX_CAPABILITIES = 64
CAP_SETFCAP = 31
CAPABILITY_VERSION = 0x2008_0522
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
SCOPES_SINCE_ABI = 6
LANDLOCK_CREATE_RULESET_VERSION = 1
BPF_INSTRUCTION_BYTES = 8


class _Landlock(ctypes.Structure):
    _fields_ = [
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    ]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def become_user(user: dict[str, Any] | None, *, but: int | None = None) -> None:
    """Another user for good, with nothing (`but` one capability) in the bounding set. None: we are who the task is."""
    empty_bounding_set(but=but)
    if user is None:
        return
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])


def empty_bounding_set(*, but: int | None = None) -> None:
    """Nothing that is executed from here on has a capability. Without the right to, there is none to lose."""
    for capability in range(MAX_CAPABILITIES):
        if capability == but:
            continue
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EPERM):  # beyond the last one; not ours to drop
                return
            raise


def drop_capabilities() -> None:
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def no_new_privileges() -> None:
    """Set-user-id programs and file capabilities change nothing from here on."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def keep_to_itself() -> None:
    """No signal and no abstract socket leads out of the task: they ignore mount and pid namespaces, or ours is shared.

    Needs Landlock of Linux 6.12; older kernels go without.
    """
    abi = libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    if abi < SCOPES_SINCE_ABI:
        return
    rules = _Landlock(0, 0, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS)
    made = libc.syscall(
        SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), 0
    )
    fd = check(made, "landlock_create_ruleset")
    check(libc.syscall(SYS_LANDLOCK_RESTRICT_SELF, fd, 0), "landlock_restrict_self")
    os.close(fd)


def filter_calls(program: bytes) -> None:
    """Install a compiled seccomp filter."""
    count = len(program) // BPF_INSTRUCTION_BYTES
    prog = _FilterProgram(count, program)
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(prog), 0, 0), "seccomp")


def limit(limits: dict[str, int]) -> None:
    """Set `RLIMIT_<name>` for soft and hard, never above the hard limit that is."""
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
