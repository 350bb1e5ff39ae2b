"""Which file system a directory is on, and what works there: by doing it."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from pathlib import Path
from tempfile import NamedTemporaryFile

from master.hpc.site.facts import Folder

TRIED_BYTES = 1024**2
"""A quota shows only when something is written."""
_NO_LOCKS = frozenset({"nolock", "localflock", "local_lock=all", "local_lock=flock"})
"""Options of NFS and Lustre: locks are none, or of one machine only."""
_ESCAPE = re.compile(r"\\([0-7]{3})")


def mount_of(path: str, mountinfo: str) -> tuple[str, frozenset[str]]:
    """The type of the file system that holds an absolute path, and the options of its mount. Pure."""
    best, found = -1, ("", frozenset[str]())
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        words, ends = before.split(), after.split()
        if not dash or len(words) < 6 or len(ends) < 3:
            continue
        at = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), words[4])
        inside = path == at or path.startswith(at.rstrip("/") + "/")
        if inside and len(at) >= best:  # a later mount hides an earlier one
            best = len(at)
            found = ends[0], frozenset(f"{words[5]},{ends[2]}".split(","))
    return found


def look_at(path: Path, origin: str) -> Folder:
    """Writes, locks and removes a file there. What does not exist is not made: its nearest parent is tried."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    kind, options = mount_of(str(there.resolve()), Path("/proc/self/mountinfo").read_text())
    problem, locks, free = _try(there)
    return Folder(
        path=str(path),
        origin=origin,
        file_system=kind,
        problem=problem,
        has_locks=locks and not options & _NO_LOCKS,
        free_bytes=free,
        other_owner=is_open_to_others(path),
        others_enter=_may_others_enter(path),
    )


def _try(folder: Path) -> tuple[str, bool, int | None]:
    try:
        status = os.statvfs(folder)
        free = status.f_bavail * status.f_frsize
        with NamedTemporaryFile(dir=folder, prefix=".windlass-") as file:
            file.write(bytes(TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
            return "", _locks(file.fileno()), free
    except OSError as error:
        if error.errno == errno.EDQUOT:
            return f"your quota on {folder} is used up", False, 0
        return f"{folder}: {error.strerror}", False, None


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _may_others_enter(path: Path) -> bool:
    try:
        return bool(
            path.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH | stat.S_IRGRP | stat.S_IROTH)
        )
    except OSError:
        return False


def is_open_to_others(path: Path) -> bool:
    """It is there, and not the user's alone: in /var/tmp anybody may have made a folder of that name."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
        return True
    return bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
