"""The kernel's calls that Python has no names for. Standard library only: the supervisor and its children use it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MS_SLAVE = 32, 4096, 16384, 1 << 18, 1 << 19
MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 1024, 2048, 1 << 21
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWIPC = 0x0002_0000, 0x0800_0000
CLONE_NEWUSER, CLONE_NEWPID = 0x1000_0000, 0x2000_0000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SECCOMP_MODE_FILTER = 2
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_RESTRICT_SELF = 444, 446
"""The same on every architecture, as all calls newer than 2019."""

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    """`result`, unless it says that the call failed. Raises OSError."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    def encode(text: str | None) -> bytes | None:
        return None if text is None else os.fsencode(text)

    arguments = (encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(data))
    check(libc.mount(*arguments), f"mount {source} on {target}")


@contextlib.contextmanager
def opened(source: str, *, exact: bool, top: str = "/") -> Iterator[str]:
    """A path that stays what `source`, below `top`, is now. `exact`: no part of it may be a link. Raises OSError."""
    fd = _open_exact(source, top) if exact else os.open(top + source, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _open_exact(source: str, top: str) -> int:
    fd = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in filter(None, source.split("/")):
        try:
            below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.ELOOP, "it has become a link", source)
    return fd


def detach(target: str) -> None:
    """Unmount a tree now for us, and for its users when they let go of it."""
    check(libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    check(libc.pivot_root(os.fsencode(new), os.fsencode(old)), f"pivot_root to {new}")


def unshare(flags: int) -> None:
    check(libc.unshare(flags), "unshare")


def punch_hole(fd: int, offset: int, length: int) -> None:
    """Give that part of a file back to its file system; it reads as zeros. Raises OSError, also where it cannot be."""
    mode = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
    span = (ctypes.c_int64(offset), ctypes.c_int64(length))
    check(libc.fallocate64(fd, mode, *span), "fallocate")


def prctl(option: int, value: int, third: int = 0) -> None:
    arguments = (ctypes.c_ulong(value), ctypes.c_ulong(third), ctypes.c_ulong(0), ctypes.c_ulong(0))
    check(libc.prctl(option, *arguments), f"prctl {option}")


def die_with_parent(expected: int) -> None:
    """SIGKILL when the parent ends. A change of user makes the kernel forget it: call it again after one."""
    prctl(PR_SET_PDEATHSIG, 9)
    if os.getppid() != expected:
        os._exit(1)
