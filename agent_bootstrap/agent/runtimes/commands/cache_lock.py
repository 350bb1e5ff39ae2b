"""A lock that machines share: `flock`, and where the file system has none, a file that only one of them can make.

Such a file is somebody's for as long as it is kept fresh; what a crash left is taken over after `STALE_S`. Ages are
told by the file system's own clock: those of machines differ.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_bootstrap.agent.containers.directory import NO_LOCKS

FRESHEN_S = 20.0
STALE_S = 180.0
"""Network file systems may show a time that is a minute old."""


@dataclass(frozen=True, slots=True)
class CacheLock:
    """Held until `close`."""

    descriptor: int
    mark: Path | None = None
    """Ours, where there is no `flock`."""
    token: bytes = b""
    """What that file contains. If it contains another, we were away for so long that somebody took it over."""

    def freshen(self) -> None:
        """To be called every `FRESHEN_S`."""
        if self.mark is not None and _read(self.mark) == self.token:
            with suppress(OSError):
                os.utime(self.mark)

    def close(self) -> None:
        if self.mark is not None and _read(self.mark) == self.token:
            self.mark.unlink(missing_ok=True)
        os.close(self.descriptor)


def try_lock(path: Path) -> CacheLock | None:
    """None: somebody else has it. The file of `flock` stays; `path` + ".held" is there while a mark is held."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        mark, token = path.with_name(f"{path.name}.held"), secrets.token_hex(8).encode()
        if error.errno in NO_LOCKS and _marked(mark, token):
            return CacheLock(descriptor, mark, token)
        os.close(descriptor)
        if error.errno in NO_LOCKS:
            return None
        raise
    return CacheLock(descriptor)


def _marked(mark: Path, token: bytes) -> bool:
    """Make it, or take over one that nobody keeps fresh."""
    for _ in range(2):
        try:
            made = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            before = _read(mark)
            if not _is_stale(mark) or not _set_aside(mark, before):
                return False
        else:
            with os.fdopen(made, "wb") as file:
                file.write(token)
            return True
    return False


def _set_aside(mark: Path, stale: bytes | None) -> bool:
    """Whether the stale one is gone. Who looked at it too may have been first: then it is theirs, and stays theirs."""
    aside = mark.with_name(f"{mark.name}-{secrets.token_hex(4)}")
    try:
        mark.rename(aside)
    except FileNotFoundError:
        return True
    try:
        if _read(aside) == stale:
            return True
        with suppress(FileExistsError):
            os.link(aside, mark)
        return False
    finally:
        aside.unlink(missing_ok=True)


def _read(mark: Path) -> bytes | None:
    try:
        return mark.read_bytes()
    except FileNotFoundError:
        return None


def _is_stale(mark: Path) -> bool:
    probe = mark.with_name(f"{mark.name}-{secrets.token_hex(4)}")
    try:
        probe.touch(mode=0o600)
        return probe.stat().st_mtime - mark.stat().st_mtime > STALE_S
    except FileNotFoundError:
        return True
    finally:
        probe.unlink(missing_ok=True)
