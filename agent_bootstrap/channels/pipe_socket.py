"""Where an agent waits for the pipe into its job: a socket file in the folder of its node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOCKET = "pipe.sock"


@contextmanager
def socket_path(folder: Path) -> Iterator[str]:
    """A name of it that is short enough: those of sockets have 107 characters at most."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)
