"""The files that come with a submission (a model definition, a command's context): packed into one blob."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from master.store.blobs import BlobStore
from master.store.context_files import plain_path
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonObject

MAX_CONTEXT_BYTES = 95 * 1024 * 1024
"""Decoded size of all files, as the clients count it too."""

MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 3072
"""What file systems take of a name, and of a path below the directory where it is unpacked."""

SHOWN = 100
"""So many characters of a path are in an error."""

Listing: TypeAlias = list[JsonObject]
"""Path, size, mode and mtime of each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFile:
    """One file or directory."""

    path: str
    content: bytes = b""
    is_directory: bool = False
    mode: int = 0o644
    mtime: int = 0


async def store_context(blobs: BlobStore, files: Sequence[ContextFile], *, what: str) -> str | None:
    """The blob id, durable when this returns; None for no files. `what` they are, for errors.

    Raises InvalidConfig for too many bytes and for paths that leave the directory.
    """
    if not files:
        return None
    size = sum(len(f.content) for f in files)
    if size > MAX_CONTEXT_BYTES:
        problem = (
            f"the {what} has {size} bytes, more than {MAX_CONTEXT_BYTES}: leave out what .detignore "
            "can name, and mount large data with bind_mounts"
        )
        raise InvalidConfig([problem], what=what)
    return await blobs.put(await asyncio.to_thread(pack, files, what=what))


def pack(files: Sequence[ContextFile], *, what: str = "model definition") -> bytes:
    """A gzipped tar. Raises InvalidConfig for paths that could not be unpacked, or not inside a directory."""
    buffer = io.BytesIO()
    names = frozenset(plain_path(f.path) for f in files if not f.is_directory)
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=3) as archive:
        for file in files:
            if problem := _problem_of(file, names):
                shown = file.path if len(file.path) <= SHOWN else f"{file.path[:SHOWN]}..."
                raise InvalidConfig([f'path "{shown}" {problem}'], what=what)
            info = tarfile.TarInfo(file.path)
            info.mode, info.mtime = file.mode & 0o7777, file.mtime
            if file.is_directory:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(file.content)
                archive.addfile(info, io.BytesIO(file.content))
    return buffer.getvalue()


def _problem_of(file: ContextFile, names: frozenset[str]) -> str:
    """What is wrong with its path among files of these names, or nothing."""
    parts = file.path.split("/")
    plain = plain_path(file.path)
    if file.path.startswith("/") or ".." in parts or not (plain or file.is_directory):
        return "must stay inside the directory"
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in parts)
    if longest > MAX_NAME_BYTES or len(plain.encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES:
        return f"is too long: a name has at most {MAX_NAME_BYTES} bytes, a path {MAX_PATH_BYTES}"
    above = plain
    while above := above.rpartition("/")[0]:
        if above in names:
            return f'cannot be there: "{above}" is a file'
    if file.is_directory and plain in names:
        return "is a file and a directory"
    return ""


def listing(files: Sequence[ContextFile]) -> Listing:
    return [
        {"path": f.path, "size": len(f.content), "mode": f.mode, "mtime": f.mtime} for f in files
    ]
