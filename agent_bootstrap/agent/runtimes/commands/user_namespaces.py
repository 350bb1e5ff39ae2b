"""Who is in a user namespace beside the process that keeps it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_NS_GET_PARENT = 0xB702
"""ioctl_ns(2): the namespace in which this one was made. Not allowed beyond the caller's own."""


_PAUSES = (["podman"], ["catatonit"])
"""Podman's own pause process, or catatonit where that is installed."""


def is_pause(pid: int) -> bool:
    """Podman left it behind to keep the namespace that all containers of a user share. Raises OSError if it is gone."""
    return Path(f"/proc/{pid}/comm").read_text().split()[:1] in _PAUSES


def is_shared(pid: int) -> bool:
    """Whether another process is in the user namespace of `pid`, or in one that was made there.

    Raises OSError if it is gone.
    """
    wanted = Path(f"/proc/{pid}/ns/user").stat().st_ino
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != pid:
            with suppress(OSError):  # it has ended, or is of another user
                if wanted in _from_inside(entry / "ns/user"):
                    return True
    return False


def _from_inside(file: Path) -> Iterator[int]:
    """The numbers of a user namespace, and of those around it. Raises OSError at the one that may not be seen."""
    at = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while True:
            yield os.fstat(at).st_ino
            around = fcntl.ioctl(at, _NS_GET_PARENT)
            os.close(at)
            at = around
    finally:
        os.close(at)
