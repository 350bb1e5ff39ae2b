"""A process that deletes or packs checkpoints: `python -P -m windlass.storage.worker`, one order on its input.

The master starts it to work as the owner of the files, away from its own event loop; a checkpoint collection on a node
is the same process in a task. It takes an `Order` as JSON, and answers with a JSON line per folder, or with an archive.
"""

from __future__ import annotations

import json
import logging  # noqa: F401 - storages import it when they have something to say, which is too late here
import os
import sys
from collections.abc import Collection, Mapping
from typing import Any, Literal, TextIO

from pydantic import BaseModel, ConfigDict

from windlass.base.errors import WindlassError
from windlass.storage import Storage, open_storage
from windlass.storage.archives import Format, checked_files, write_archive
from windlass.storage.local import LocalStorage
from windlass.storage.names import utf8

MOST_ORDER_BYTES = 64 * 1024 * 1024


class RunAs(BaseModel):
    model_config = ConfigDict(frozen=True)

    uid: int
    gid: int


class Order(BaseModel):
    """What to do in one storage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    do: Literal["delete", "remove_empty", "archive"]
    """remove_empty: folders without anything in them, which others than their users made."""
    storage: Mapping[str, Any]
    """A `checkpoint_storage` section, secrets resolved."""
    folders: tuple[str, ...]
    """Checkpoints by their ids, or folders of TensorBoard files."""
    globs: tuple[str, ...] = ()
    format: Format = "tar"
    run_as: RunAs | None = None
    """Whose rights to take; root only."""


class FolderResult(BaseModel):
    """What became of one folder."""

    model_config = ConfigDict(frozen=True)

    folder: str
    left: dict[str, int] = {}
    """The files that are there now, with their sizes."""
    error: str = ""


def main() -> None:
    order = Order.model_validate_json(sys.stdin.buffer.read(MOST_ORDER_BYTES))
    # From here on nothing is imported: the interpreter may be out of this user's reach.
    _preload(order.storage)
    if order.run_as is not None:
        become(order.run_as)
    if order.do == "delete":
        delete(order, sys.stdout)
    elif order.do == "remove_empty":
        for folder in order.folders:
            print(removed_empty(order, folder).model_dump_json(), flush=True)
    else:
        archive(order)


def become(who: RunAs) -> None:
    """Take another user's rights for good, before the first file is touched."""
    os.setgroups([])
    os.setresgid(who.gid, who.gid, who.gid)
    os.setresuid(who.uid, who.uid, who.uid)


def delete(order: Order, out: TextIO) -> None:
    """Folder by folder; one that fails does not stop the others."""
    for folder in order.folders:
        result = deleted(open_storage(order.storage), folder, order.globs)
        print(result.model_dump_json(), file=out, flush=True)


def deleted(storage: Storage, folder: str, globs: Collection[str]) -> FolderResult:
    """What became of one folder."""
    try:
        try:
            left = storage.delete(folder, globs)
        except WindlassError:
            # The folder itself may be another's (TensorBoard's lie in the agent's): what counts is what is in it.
            if _has_files(storage, folder):
                raise
            left = {}
        return FolderResult(folder=folder, left={utf8(name): size for name, size in left.items()})
    except (WindlassError, OSError, ValueError) as error:
        return FolderResult(folder=folder, error=utf8(str(error)) or type(error).__name__)


def removed_empty(order: Order, folder: str) -> FolderResult:
    """Whether or not it was there and empty: nobody misses it, and nothing else is touched."""
    storage = open_storage(order.storage)
    if isinstance(storage, LocalStorage):
        storage.remove_empty(folder)
    return FolderResult(folder=folder)


def _has_files(storage: Storage, folder: str) -> bool:
    try:
        return any(not name.endswith("/") for name in storage.files(folder))
    except WindlassError:
        return True


def archive(order: Order) -> None:
    """One line of JSON: the files, or why not. Then the archive; exit code 0 only if it is whole."""
    out = sys.stdout.buffer
    (folder,) = order.folders
    try:
        storage = open_storage(order.storage)
        files = checked_files(storage, folder, order.format)
    except (WindlassError, OSError, ValueError) as error:
        code = error.code if isinstance(error, WindlassError) else "internal"
        _line(out, {"error": utf8(str(error)), "code": code})
        return
    _line(out, {"files": len(files), "bytes": sum(files.values())})
    write_archive(storage, folder, files, order.format, out)


def _line(out: Any, document: Mapping[str, object]) -> None:
    out.write(json.dumps(document).encode() + b"\n")
    out.flush()


def _preload(storage: Mapping[str, Any]) -> None:
    """Import all that this kind of storage needs."""
    if storage.get("type") not in ("shared_fs", "directory"):
        open_storage(storage)


if __name__ == "__main__":
    main()
