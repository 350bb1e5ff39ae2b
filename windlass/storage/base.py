"""What every storage can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from windlass.base.errors import NotFound

Progress: TypeAlias = Callable[[int, int], None]
"""Is told the bytes done and the bytes in all, from any thread, one call at a time."""
Selector: TypeAlias = Callable[[str], bool]
"""Is given the name of a file, or of a directory with a "/" at its end."""

EVERYTHING = ("**/*",)
"""The globs that delete a folder as a whole."""


class CheckpointNotFound(NotFound):
    def __init__(self, folder: str) -> None:
        super().__init__("checkpoint", folder)


class Storage(ABC):
    """Folders of files. A folder is a checkpoint (its id) or TensorBoard files (`<cluster>/tensorboard/...`).

    Names of files are relative to their folder, with "/" between the parts. Directories have names too, which end in
    "/". Every call may be repeated. Raises StorageError and its kinds, and CheckpointNotFound where a folder is read.
    """

    where: str
    """For people: `s3://bucket/prefix`, or a directory."""

    @abstractmethod
    def files(self, folder: str) -> dict[str, int]:
        """Name -> size of everything in it; directories with size 0."""

    @abstractmethod
    def upload(
        self,
        source: Path,
        folder: str,
        names: Collection[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Store these files of `source` (None: all). Those that are there already are not sent again."""

    @abstractmethod
    def download(
        self,
        folder: str,
        target: Path,
        names: Collection[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Write these files (None: all) below `target`, which is made. Those that are there already are kept."""

    @abstractmethod
    def read(self, folder: str, name: str) -> Iterator[bytes | memoryview]:
        """The content of one file in pieces, in constant memory. Raises NotFound, and StorageError if it ends early."""

    @abstractmethod
    def write(self, folder: str, name: str, data: bytes) -> None:
        """Store one small file, whole or not at all."""

    @abstractmethod
    def delete(self, folder: str, globs: Collection[str] = EVERYTHING) -> dict[str, int]:
        """Remove what matches, directories with all below them. Returns what is left, as `files` does.

        A folder that is gone already is fine.
        """

    @abstractmethod
    def upload_file(self, source: Path, folder: str, name: str) -> None:
        """Store one file under this name, in place of what is there."""

    def local_path(self, folder: str) -> Path | None:
        """Where the folder lies on this machine, if the storage is a directory."""
        del folder
        return None

    def prepare(self, folder: str) -> Path | None:
        """The same, made if it is missing, to write into."""
        del folder
        return None


def selected(files: Mapping[str, int], selector: Selector | None) -> dict[str, int]:
    return {n: size for n, size in files.items() if selector is None or selector(n)}


def folder_parts(folder: str) -> list[str]:
    """Raises ValueError for what is not a plain relative path."""
    parts = folder.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{folder!r} is not the name of a checkpoint or folder")
    return parts


def parents_of(names: Iterable[str]) -> set[str]:
    """The directories that these files imply, with "/" at the end."""
    found: set[str] = set()
    for name in names:
        position = name.rstrip("/").rfind("/")
        while position > 0 and (parent := name[: position + 1]) not in found:
            found.add(parent)
            position = name.rfind("/", 0, position)
    return found
