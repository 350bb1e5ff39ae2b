"""Looking at and ending processes of this machine by what they are, not by a number that may be reused."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SWEEP_ROUNDS = 20
"""A process may fork while it is being swept; each round finds the children of the last one."""
SWEEP_WAIT_S = 0.5
"""How long one round waits for what it killed."""

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessName:
    """One process for ever: the number, when it started (clock ticks after boot), and the boot."""

    pid: int
    start_time: int
    boot_id: str


def boot_id() -> str:
    """Changes when the machine reboots."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; None if there is no such process or it is a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command name may hold spaces and parentheses: count fields after the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def is_running(name: ProcessName) -> bool:
    """True if that very process still runs; a later one with the same number is not it."""
    return name.boot_id == boot_id() and start_time(name.pid) == name.start_time


def send(name: ProcessName, number: int) -> None:
    """Signal exactly that process; nothing happens if it is gone."""
    with _Handle(name.pid) as handle:
        if handle.fd is not None and is_running(name):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle.fd, number)


def wait_gone(name: ProcessName, timeout_s: float) -> bool:
    """Whether it ended within `timeout_s`. Works for processes that are no children of ours."""
    with _Handle(name.pid) as handle:
        if handle.fd is None or not is_running(name):
            return True
        return _wait_readable([handle.fd], timeout_s)


def sweep(variable: str, value: str) -> int:
    """Kill every process whose environment has `variable=value`, except this one; how many were killed.

    The environment is inherited by everything below a process, also by what left its session or group.
    """
    killed = 0
    for _ in range(SWEEP_ROUNDS):
        found = marked_processes(variable, value)
        if not found:
            return killed
        killed += sum(_kill_if(pid, variable, value) for pid in found)
    return killed


def marked_processes(variable: str, value: str) -> list[int]:
    """Processes, other than this one, that were started with `variable=value` and that we may look at."""
    return [pid for pid in _pids() if _has(pid, variable, value)]


def _pids() -> list[int]:
    own = os.getpid()
    names = (entry.name for entry in _PROC.iterdir())
    return [int(name) for name in names if name.isdigit() and int(name) != own]


def _has(pid: int, variable: str, value: str) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{variable}={value}".encode() in environment.split(b"\0")


def _kill_if(pid: int, variable: str, value: str) -> bool:
    with _Handle(pid) as handle:
        if handle.fd is None or not _has(pid, variable, value):
            return False
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(handle.fd, signal.SIGKILL)
        return _wait_readable([handle.fd], SWEEP_WAIT_S)


def _wait_readable(fds: list[int], timeout_s: float) -> bool:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


class _Handle:
    """A file descriptor that means one process: the number cannot be reused under it."""

    def __init__(self, pid: int) -> None:
        self.fd: int | None = None
        with suppress(OSError):
            self.fd = os.pidfd_open(pid)

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            os.close(self.fd)
