"""The files that came with a task: fetched from the master, unpacked into it."""

from __future__ import annotations

import base64
import binascii
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from windlass.base.errors import InvalidArgument
from windlass.core._session import TaskSession


def install_files(session: TaskSession, task_id: str, targets: Iterable[Path]) -> None:
    """Unpack them into each target: the working directory, and of trials a copy that stays clean."""
    encoded = session.get(f"/api/v1/tasks/{task_id}/context_directory").get("b64Tgz") or ""
    if not encoded:
        return
    try:
        archive = base64.b64decode(encoded)
        for target in targets:
            target.mkdir(parents=True, exist_ok=True)
            unpack(archive, target)
    except (binascii.Error, tarfile.TarError, zlib.error, EOFError) as problem:
        raise InvalidArgument(
            f"the files of the task are not a readable archive: {problem}"
        ) from None


def unpack(archive: bytes, target: Path) -> None:
    """Write the files and directories of a .tar.gz below `target`, and nothing else.

    Links, devices and paths that lead out of `target` are refused before anything is written. (The `filter` argument
    of tarfile would do it, but not every Python 3.11 has it.)
    """
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        members = tar.getmembers()
        for member in members:
            _check(member)
        for member in members:
            path = target / member.name
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            if content is None:
                raise InvalidArgument(f"files of the task: {member.name!r} has no content")
            with content, path.open("wb") as file:
                shutil.copyfileobj(content, file)
            # What others may do is not the archive's to decide; the owner must be able to read.
            path.chmod((member.mode & 0o755) | 0o400)
            os.utime(path, (member.mtime, member.mtime))


def _check(member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise InvalidArgument(f"files of the task: {member.name!r} leads out of its directory")
    if not (member.isfile() or member.isdir()):
        raise InvalidArgument(
            f"files of the task: {member.name!r} is neither a file nor a directory"
        )
