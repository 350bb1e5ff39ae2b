"""The folder that a master keeps its state in: one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_data_path

from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.processes import boot_id

DEFAULT_CONFIG = Path("/etc/windlass/master.yaml")
"""Of a master that is told no other."""
LOCK = "lock"
SECRET = "secret"  # noqa: S105  (the name of a file)
TLS = "tls"
"""A folder: an authority of the master's own, and what it has signed."""


def default_folder() -> Path:
    """Of a master that is told nothing."""
    if os.geteuid() == 0:
        return Path("/var/lib/windlass")
    return user_data_path("windlass") / "master"


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """The folder, made if need be, for this process alone. The kernel lets go of it however the process ends.

    Raises Conflict while another process holds it, InvalidArgument if it cannot be a folder, or not one of this user.
    """
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(f"--data-dir {folder} is a file: give a folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = _open_lock(folder)
    try:
        _require_owner(folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
            raise Conflict(
                f"{folder} is in use by the master with process id {holder}: stop it first, "
                "or give another --data-dir"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield folder
    finally:
        os.close(descriptor)


def place_of(folder: Path) -> str:
    """Names the lock of a folder among all: two processes with the same one cannot both hold it. Empty: has none."""
    try:
        found = (folder / LOCK).stat()
    except OSError:
        return ""
    return f"{boot_id()}:{found.st_dev}:{found.st_ino}"


def _open_lock(folder: Path) -> int:
    try:
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError:
        raise InvalidArgument(
            f"{folder} cannot be written by user {_name(os.geteuid())}, it belongs to user "
            f"{_name(folder.stat().st_uid)}: {_WAYS_OUT.format(_name(folder.stat().st_uid))}"
        ) from None
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        raise InvalidArgument(
            f"{folder} is on a read-only file system: mount it for writing, or give another --data-dir"
        ) from None


def _require_owner(folder: Path) -> None:
    """Root could go on in another user's folder, but that user's master could not read what root writes there.

    On some file systems root's files belong to somebody else: so it counts to whom a new file belongs.
    """
    secret = folder / SECRET
    if not secret.exists() or secret.stat().st_uid == os.geteuid():
        return
    with tempfile.TemporaryFile(dir=folder) as probe:
        new = os.fstat(probe.fileno()).st_uid
    owner = secret.stat().st_uid
    if new != owner:
        raise InvalidArgument(
            f"{folder} is the data folder of user {_name(owner)}, this process is of user {_name(new)}: "
            + _WAYS_OUT.format(_name(owner))
        )


_WAYS_OUT = (
    "run it as {}, change the owner of all files in it (chown -R), or give another --data-dir"
)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def exposures(folder: Path, *, runs_agents: bool) -> Iterator[str]:
    """Who besides the master may read its folder: secret, accounts and all. `runs_agents`: it starts them itself."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        yield (
            f"{folder} (mode {mode:o}) is open to other users of this machine, those that tasks run as among them: "
            f"chmod 700 {folder}"
        )
    if runs_agents and os.geteuid() != 0:
        yield (
            f"embedded agents, and so their tasks, run as the master's own user ({os.geteuid()}), who may read "
            f"{folder}: only the mounts of a task hide it. Run the master as root, which gives tasks another user, "
            "or tasks on other machines"
        )


def of_a_master(folder: Path) -> Path:
    """A folder that a master has used. Raises InvalidArgument for any other, so that a typo makes nothing."""
    if not (folder / SECRET).is_file():
        raise InvalidArgument(
            f"{folder} is not the data folder of a master: start one there first, or correct --data-dir"
        )
    return folder.absolute()
