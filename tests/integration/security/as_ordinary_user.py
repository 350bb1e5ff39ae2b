"""Become an ordinary user who can reach the interpreter, then run a program. Only root can.

usage: python -I -S as_ordinary_user.py UID PROGRAM ARGUMENTS...

An interpreter below /root is laid over an empty /root that others may pass, in a mount namespace of this process alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile

MS_BIND, MS_REC, MS_PRIVATE, CLONE_NEWNS, MNT_DETACH = 4096, 16384, 1 << 18, 0x20000, 2
libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, data)]
    if libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def open_way_to_interpreter() -> None:
    prefix = os.path.realpath(sys.base_prefix)
    if not prefix.startswith("/root/"):
        return
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    held = tempfile.mkdtemp()
    mount(prefix, held, None, MS_BIND | MS_REC)
    mount("tmpfs", "/root", "tmpfs", 0, "mode=755")
    os.makedirs(prefix)
    mount(held, prefix, None, MS_BIND | MS_REC)
    libc.umount2(held.encode(), MNT_DETACH)
    os.rmdir(held)


if __name__ == "__main__":
    uid = int(sys.argv[1])
    open_way_to_interpreter()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606
