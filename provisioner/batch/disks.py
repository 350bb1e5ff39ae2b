"""Where the directories of jobs are: on a disk of this machine; `ssh.py` reaches that of a login node."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Protocol

from windlass.base.files import write_atomic


class Disk(Protocol):
    """Blocking."""

    def write(self, file: Path, data: bytes) -> None:
        """Whole or not at all, with its folders, for its user alone. Raises OSError; NoAnswer."""
        ...

    def tail(self, file: Path, count: int) -> bytes:
        """Its last bytes. Raises OSError; NoAnswer."""
        ...

    def remove(self, folder: Path) -> None:
        """With all in it, as far as that can be done."""
        ...

    def has_entries(self, folder: Path) -> bool:
        """There is something in it, and it can be read on this machine."""
        ...


class LocalDisk:
    """Implements `Disk`."""

    def write(self, file: Path, data: bytes) -> None:
        missing = [folder for folder in file.parents if not folder.exists()]
        for folder in reversed(missing):  # a `mode` of mkdir is not for parents
            folder.mkdir(mode=0o700, exist_ok=True)
        write_atomic(file, data, durable=True)

    def tail(self, file: Path, count: int) -> bytes:
        # Tasks may write there: no link to a file of this machine, no pipe that nobody writes into.
        found = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(found, "rb") as opened:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise OSError(errno.EINVAL, "it is no file", str(file))
            opened.seek(max(0, opened.seek(0, os.SEEK_END) - count))
            return opened.read()

    def has_entries(self, folder: Path) -> bool:
        return any(folder.glob("*"))

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
