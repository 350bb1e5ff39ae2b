"""Processes by number, as /proc tells them. Standard library only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def start_time(pid: int) -> int:
    """Clock ticks after boot, field 22 of stat: with the pid it names a process for ever."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def children(pid: int) -> list[int]:
    """Direct children of all its threads, by the kernel's lists, or by looking at every process where it has none.

    None of one that has ended meanwhile.
    """
    if not os.path.exists("/proc/thread-self/children"):
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent(name) == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found


def parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return -1


def descendants(pid: int) -> Iterator[int]:
    """Everything below it, breadth first."""
    generation = children(pid)
    while generation:
        yield from generation
        generation = [child for one in generation for child in children(one)]


def named_descendant(pid: int, program: bytes) -> int:
    """The first process, itself or below it, whose last argument is that program; 0: none."""
    for one in (pid, *descendants(pid)):
        with contextlib.suppress(OSError), open(f"/proc/{one}/cmdline", "rb") as file:
            if file.read().rstrip(b"\0").endswith(program):
                return one
    return 0
