"""The cgroup of one task: entered before its first program, asked how it went, ended. Standard library only."""

from __future__ import annotations

import contextlib
import os
import select
import time

END_S = 2.0
"""How long processes that were killed may take to be gone."""


def enter(group: str) -> None:
    """This process, and with it all that it starts. Raises OSError."""
    _write(group, "cgroup.procs", "0")


def was_out_of_memory(group: str) -> bool:
    """Whether the kernel has killed something in it for the memory that it used."""
    try:
        with open(os.path.join(group, "memory.events")) as file:
            events = dict(line.split(None, 1) for line in file)
    except (OSError, ValueError):
        return False
    return int(events.get("oom_kill", "0")) > 0


def out_of_memory(limit: int) -> str:
    """In a sentence. `limit` in bytes, 0: none."""
    allowed = f"its limit of {limit / 2**30:.2f} GiB" if limit else "what the machine has"
    return f"the task was killed because it used more memory than {allowed}"


def end(group: str) -> None:
    """Kill what is left in it, and remove it. What resists is left to the agent."""
    with contextlib.suppress(OSError):
        _write(group, "cgroup.kill", "1")
    _wait_empty(group, time.monotonic() + END_S)
    with contextlib.suppress(OSError):
        os.rmdir(group)


def _wait_empty(group: str, deadline: float) -> None:
    """The kernel tells each change of `cgroup.events` as urgent data."""
    try:
        events = os.open(os.path.join(group, "cgroup.events"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        changed = select.poll()
        changed.register(events, select.POLLPRI)
        while b"populated 1" in os.pread(events, 4096, 0):
            if (left := deadline - time.monotonic()) <= 0:
                return
            changed.poll(left * 1000)
    except OSError:  # it was removed meanwhile
        return
    finally:
        os.close(events)


def _write(group: str, name: str, text: str) -> None:
    # Nothing is made: in a cgroup, what is not there is not supported.
    file = os.open(os.path.join(group, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
