"""Looking at and ending processes of this machine by what they are, not by a number that may be reused."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SWEEP_ROUNDS = 20
"""A process may fork while it is being swept; each round finds the children of the last one."""
SWEEP_WAIT_S = 0.5
"""How long one round waits for what it killed."""

LOOK_S = 0.02
"""How often a process is looked at where the kernel tells nobody of its end."""

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


class ProcessHandle:
    """One process, zombie or not: a later one with the same number is neither signalled nor waited for.

    By a descriptor of it. Kernels before 5.3 (Enterprise Linux 8) have none: there its number and the time when it
    started are compared just before each signal. A context manager.
    """

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError, and OSError where there are no descriptors left."""
        self.pid = pid
        self.descriptor = _descriptor(pid)
        """It can be read from once the process has ended; None: this kernel has none."""
        self._started = start_time(pid)

    def __enter__(self) -> ProcessHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def send(self, number: int) -> None:
        """Raises ProcessLookupError and PermissionError."""
        if self.descriptor is not None:
            signal.pidfd_send_signal(self.descriptor, number)
        elif self.wait(0):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        else:
            os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within `timeout_s`."""
        if self.descriptor is not None:
            poll = select.poll()
            poll.register(self.descriptor, select.POLLIN)
            return bool(poll.poll(timeout_s * 1000))
        deadline = time.monotonic() + timeout_s
        while self._started is not None and start_time(self.pid) == self._started:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_S)
        return True


def _descriptor(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except AttributeError:  # Python was built for such a kernel
        pass
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    with suppress(PermissionError):  # then it is there
        os.kill(pid, 0)
    return None


def send(name: ProcessName, number: int) -> None:
    """Signal exactly that process; nothing happens if it is gone."""
    with suppress(ProcessLookupError), ProcessHandle(name.pid) as handle:
        if is_running(name):
            handle.send(number)


def wait_gone(name: ProcessName, timeout_s: float) -> bool:
    """Whether it ended within `timeout_s`. Works for processes that are no children of ours."""
    with suppress(ProcessLookupError), ProcessHandle(name.pid) as handle:
        if is_running(name):
            return handle.wait(timeout_s)
    return True


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
    with suppress(OSError), ProcessHandle(pid) as handle:
        if _has(pid, variable, value):
            with suppress(ProcessLookupError, PermissionError):
                handle.send(signal.SIGKILL)
            return handle.wait(SWEEP_WAIT_S)
    return False
