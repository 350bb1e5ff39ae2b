"""The cgroup of one task: entered before its first program, asked how it went, ended. Standard library only."""

from __future__ import annotations

import contextlib
import os
import time

REMOVE_TRIES = 200
REMOVE_PAUSE_S = 0.005


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
    for _ in range(REMOVE_TRIES):
        try:
            os.rmdir(group)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(REMOVE_PAUSE_S)
        else:
            return


def _write(group: str, name: str, text: str) -> None:
    # Nothing is made: in a cgroup, what is not there is not supported.
    file = os.open(os.path.join(group, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
