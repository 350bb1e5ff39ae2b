"""The filter of system calls, run by an interpreter of its language."""

from __future__ import annotations

import errno
import struct

import pytest

from agent_bootstrap.agent.runtimes.seccomp_filter import (
    CLONE,
    CLONE3,
    IOCTL,
    REFUSED,
    SOCKET,
    UNSHARE,
    compile_filter,
)
from windlass.base.errors import InvalidConfig

AUDIT = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
COLUMN = {"x86_64": 0, "aarch64": 1}
ALLOWED, KILLED = 0x7FFF_0000, 0x8000_0000
EPERM, ENOSYS = 0x0005_0000 | errno.EPERM, 0x0005_0000 | errno.ENOSYS
CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWTIME, SIGCHLD = 0x1000_0000, 0x0002_0000, 0x80, 17
THREAD = 0x003D_0F00
"""As the C library starts one."""
machines = pytest.mark.parametrize("machine", sorted(AUDIT))


def answer(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the kernel would do with that call."""
    data = struct.pack("=IIQ", number, AUDIT[machine] if arch is None else arch, 0)
    data += b"".join(struct.pack("=Q", argument) for argument in arguments).ljust(48, b"\0")
    program = list(struct.iter_unpack("=HBBI", compile_filter(machine)))
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
            continue
        holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: accumulator & value}
        at += if_true if holds[code] else if_false


@machines
def test_what_no_task_needs_is_refused_and_all_else_allowed(machine: str) -> None:
    column = COLUMN[machine]
    refused = {numbers[column] for numbers in REFUSED.values()} - {-1}
    special = {numbers[column] for numbers in (CLONE, UNSHARE, CLONE3, IOCTL, SOCKET)}
    for number in set(range(600)) - special:
        assert answer(machine, number) == (EPERM if number in refused else ALLOWED), number


@machines
def test_processes_and_threads_start_but_not_in_namespaces_of_their_own(machine: str) -> None:
    clone, unshare = CLONE[COLUMN[machine]], UNSHARE[COLUMN[machine]]
    for flags in (SIGCHLD, THREAD):
        assert answer(machine, clone, flags) == ALLOWED
    for namespace in (CLONE_NEWUSER, CLONE_NEWNS):
        assert answer(machine, clone, namespace | SIGCHLD) == EPERM
        assert answer(machine, unshare, namespace) == EPERM
    assert answer(machine, unshare, 0x400) == ALLOWED  # CLONE_FILES
    assert answer(machine, unshare, CLONE_NEWTIME) == EPERM
    # Its flags are in memory, which a filter cannot read: the C library falls back to clone.
    assert answer(machine, CLONE3[COLUMN[machine]]) == ENOSYS


@machines
def test_nobody_types_into_a_terminal_or_talks_to_the_hypervisor(machine: str) -> None:
    ioctl, socket = IOCTL[COLUMN[machine]], SOCKET[COLUMN[machine]]
    assert answer(machine, ioctl, 0, 0x5412) == EPERM
    # The kernel looks at the low half of a request: so must the filter.
    assert answer(machine, ioctl, 0, 0x1_0000_5412) == EPERM
    assert answer(machine, ioctl, 0, 0x5401) == ALLOWED
    assert (answer(machine, socket, 40), answer(machine, socket, 2)) == (EPERM, ALLOWED)


@machines
def test_numbers_of_another_architecture_kill(machine: str) -> None:
    other = next(audit for name, audit in AUDIT.items() if name != machine)
    assert answer(machine, 0, arch=other) == KILLED


def test_the_other_calls_of_x86_64_are_no_way_around() -> None:
    mount = REFUSED["mount"][0]
    assert answer("x86_64", 0x4000_0000 | mount) == EPERM
    assert answer("x86_64", 0x4000_0000) == EPERM


def test_a_machine_whose_numbers_are_not_known_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="no seccomp filter for riscv64 machines"):
        compile_filter("riscv64")
