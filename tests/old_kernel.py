"""Run a program as on Linux 4.18 (Enterprise Linux 8): system calls that came after it are not there.

usage: python -I -S old_kernel.py PROGRAM ARGUMENTS...
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

FIRST_NEW = 424
"""pidfd_send_signal, of Linux 5.1; from here on the numbers are the same on all machines."""
LOAD, AT_LEAST, RETURN = 0x20, 0x35, 0x06
ALLOW, NOT_THERE = 0x7FFF_0000, 0x0005_0000 | errno.ENOSYS
PROGRAM = (
    (LOAD, 0, 0, 0),
    (AT_LEAST, 0, 1, FIRST_NEW),
    (RETURN, 0, 0, NOT_THERE),
    (RETURN, 0, 0, ALLOW),
)
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def forget_new_calls() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in PROGRAM)
    told = _Filter(len(PROGRAM), code)
    if os.geteuid() != 0:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(told), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    forget_new_calls()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606
