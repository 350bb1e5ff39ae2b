"""The files that come with a submission (a model definition, a command's context): packed into one blob."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from master.store.blobs import BlobStore
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonObject

MAX_CONTEXT_BYTES = 95 * 1024 * 1024
"""Decoded size of all files, as the clients count it too."""

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
    """A gzipped tar. Paths that leave the directory are refused."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=3) as archive:
        for file in files:
            parts = file.path.split("/")
            if file.path.startswith("/") or ".." in parts or not file.path:
                problem = f'path "{file.path}" must stay inside the directory'
                raise InvalidConfig([problem], what=what)
            info = tarfile.TarInfo(file.path)
            info.mode, info.mtime = file.mode & 0o7777, file.mtime
            if file.is_directory:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(file.content)
                archive.addfile(info, io.BytesIO(file.content))
    return buffer.getvalue()


def listing(files: Sequence[ContextFile]) -> Listing:
    return [
        {"path": f.path, "size": len(f.content), "mode": f.mode, "mtime": f.mtime} for f in files
    ]
