"""What Linux says about processes: enough to name one for ever, and to find those that carry a mark."""

from __future__ import annotations

import os
from pathlib import Path


def boot_id() -> str:
    """Changes when the machine reboots."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Clock ticks after boot (field 22 of stat). None: there is no such process, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def is_alive(pid: int, started: int, boot: str) -> bool:
    """True if that very process still runs; a later one with the same number is not it."""
    return boot == boot_id() and start_time(pid) == started


def marked_processes(name: str, value: str) -> list[int]:
    """Processes that were started with `name=value` in their environment and that we may look at."""
    mark = f"{name}={value}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = Path(entry.path, "environ").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0"):
            found.append(int(entry.name))
    return found
