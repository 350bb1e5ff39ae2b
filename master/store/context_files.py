"""Single files of a packed context: what is in it, and what one of them holds. All of it takes time: for a thread."""

from __future__ import annotations

import codecs
import io
import mimetypes
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from windlass.base.errors import InvalidArgument, NotFound

MAX_LEVELS = 50
"""Of directories that are shown as such: JSON cannot be nested without end. Below, names are paths."""
HEAD_BYTES = 512
"""Of a file, which tell whether it is text."""


@dataclass(slots=True)
class ContextNode:
    """A file or directory; `path` is from the root of the context."""

    path: str
    size: int = 0
    mtime: float = 0
    content_type: str = ""
    is_directory: bool = False
    children: dict[str, ContextNode] = field(default_factory=dict)
    """By name."""


def file_tree(archive: bytes) -> Mapping[str, ContextNode]:
    """Files and directories at the root of a packed context, by name."""
    root = ContextNode("", is_directory=True)
    for path, tar, member in members(archive):
        node = root
        for name in filter(None, path.split("/", MAX_LEVELS)):
            node.is_directory = True
            child = f"{node.path}/{name}" if node.path else name
            node = node.children.setdefault(name, ContextNode(child))
        node.size, node.mtime = member.size, member.mtime
        node.is_directory = member.isdir() or bool(node.children)
        content = tar.extractfile(member)
        node.content_type = content_type(path, content.read(HEAD_BYTES)) if content else ""
    return root.children


def read_file(archive: bytes, path: str) -> bytes:
    """Raises InvalidArgument for a path that leaves the context or is no file's, NotFound for one that is not there."""
    if path.startswith("/") or ".." in path.split("/"):
        raise InvalidArgument(f'path: "{path}" must stay inside the model definition')
    wanted = plain_path(path)
    found: bytes | None = None
    for name, tar, member in members(archive):
        if name.startswith(f"{wanted}/") or (name == wanted and member.isdir()) or not wanted:
            raise InvalidArgument(f'path: "{path}" is a directory; give the path of a file')
        if name == wanted and (content := tar.extractfile(member)) is not None:
            found = content.read()
    if found is None:
        raise NotFound("file of the model definition", path)
    return found


def files_of(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Every file with what it holds, one after another. Links hold nothing."""
    for path, tar, member in members(archive):
        if not member.isdir():
            content = tar.extractfile(member) if member.isfile() else None
            yield path, content.read() if content else b""


def content_type(path: str, head: bytes) -> str:
    """By what is in it; by its name if that is not text."""
    if b"\0" not in head:
        # The last character may be cut off.
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder("utf-8")().decode(head)
            return "text/plain; charset=utf-8"
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def plain_path(path: str) -> str:
    """Without empty parts and dots."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def members(archive: bytes) -> Iterator[tuple[str, tarfile.TarFile, tarfile.TarInfo]]:
    """Each with its plain path."""
    if not archive:
        return
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            yield plain_path(member.name), tar, member
