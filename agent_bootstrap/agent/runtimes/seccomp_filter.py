"""The system calls that no task may make, compiled to the kernel's filter language (classic BPF). Pure.

A task has no capability, so most of these would fail anyway. The filter keeps it from the code behind them: doors to
the kernel that training does not need, and user namespaces, in which a task would have capabilities again.
Refused calls fail with EPERM. Calls with a struct that a filter cannot read (clone3) fail with ENOSYS, on which the C
library takes the older one.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

from windlass.base.errors import InvalidConfig

REFUSED: dict[str, tuple[int, int]] = {
    # name: numbers on x86_64 and aarch64; -1 where there is none
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, -1),
    "get_kernel_syms": (177, -1),
    "query_module": (178, -1),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "modify_ldt": (154, -1),
    "nfsservctl": (180, 42),
    "uselib": (134, -1),
    "_sysctl": (156, -1),
    "ustat": (136, -1),
    "sysfs": (139, -1),
}
CLONE, UNSHARE, CLONE3, IOCTL, SOCKET = (56, 220), (272, 97), (435, 435), (16, 29), (41, 198)
NEW_NAMESPACES = 0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x7000_0000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, and NEWUSER | NEWPID | NEWNET."""
NEW_TIME_NAMESPACE = 0x80
"""In `clone` the same bit is a part of the signal number."""
TERMINAL_REQUESTS = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put words into the mouth of whoever sits at the terminal."""
AF_VSOCK = 40
X32_BIT = 0x4000_0000

LD_WORD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
AT_NUMBER, AT_ARCH, AT_ARGUMENTS = 0, 4, 16
ALLOW, KILL = 0x7FFF_0000, 0x8000_0000
FAIL = 0x0005_0000
REFUSE, UNKNOWN = FAIL | errno.EPERM, FAIL | errno.ENOSYS

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Architecture:
    audit: int
    """How the kernel names it, AUDIT_ARCH_*."""
    column: int
    x32: bool = False


_MACHINES = {
    "x86_64": _Architecture(audit=0xC000_003E, column=0, x32=True),
    "aarch64": _Architecture(audit=0xC000_00B7, column=1),
}


def compile_filter(machine: str = platform.machine()) -> bytes:
    """The program as `prctl` and `bwrap --seccomp` take it. Raises InvalidConfig for machines that are not known."""
    known = _MACHINES.get(machine)
    if known is None:
        raise InvalidConfig([f"no seccomp filter for {machine} machines"], what="isolation")
    column = known.column
    program = [
        _load(AT_ARCH),
        (JUMP_EQUAL, 1, 0, known.audit),
        _return(KILL),  # the numbers of another architecture mean other calls
        _load(AT_NUMBER),
    ]
    if known.x32:
        program += [(JUMP_AT_LEAST, 0, 1, X32_BIT), _return(REFUSE)]
    program += _unless(CLONE3[column], [_return(UNKNOWN)])
    program += _unless(CLONE[column], _if_any_bit(0, NEW_NAMESPACES))
    program += _unless(UNSHARE[column], _if_any_bit(0, NEW_NAMESPACES | NEW_TIME_NAMESPACE))
    program += _unless(IOCTL[column], _if_one_of(1, TERMINAL_REQUESTS))
    program += _unless(SOCKET[column], _if_one_of(0, (AF_VSOCK,)))
    for numbers in REFUSED.values():
        if numbers[column] >= 0:
            program += _unless(numbers[column], [_return(REFUSE)])
    program.append(_return(ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _load(offset: int) -> Instruction:
    return (LD_WORD, 0, 0, offset)


def _return(answer: int) -> Instruction:
    return (RETURN, 0, 0, answer)


def _unless(number: int, block: list[Instruction]) -> list[Instruction]:
    """Skip `block`, which ends with an answer, unless this is the call."""
    return [(JUMP_EQUAL, 0, len(block), number), *block]


def _if_any_bit(argument: int, bits: int) -> list[Instruction]:
    """Refuse when the low word of an argument has one of `bits`: flags are there."""
    return [
        _load(AT_ARGUMENTS + 8 * argument),
        (JUMP_SET, 0, 1, bits),
        _return(REFUSE),
        _return(ALLOW),
    ]


def _if_one_of(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    """Refuse when the low word of an argument, which is all that the kernel looks at there, is one of `values`."""
    block = [_load(AT_ARGUMENTS + 8 * argument)]
    for value in values:
        block += [(JUMP_EQUAL, 0, 1, value), _return(REFUSE)]
    return [*block, _return(ALLOW)]
