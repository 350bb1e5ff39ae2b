"""What every storage can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from windlass.base.errors import NotFound, StorageError
from windlass.storage import local_files
from windlass.storage.local_problems import told
from windlass.storage.progress import Counter, Progress

Sizes: TypeAlias = Mapping[str, int]
"""By name of a file, or of a directory with a "/" at its end."""
Done: TypeAlias = Callable[[int], None]
"""Is told the bytes that were just moved, from any thread."""
Selector: TypeAlias = Callable[[str], bool]
"""Is given the name of a file, or of a directory with a "/" at its end."""

EVERYTHING = ("**/*",)
"""The globs that delete a folder as a whole."""


class CheckpointNotFound(NotFound):
    def __init__(self, folder: str) -> None:
        super().__init__("checkpoint", folder)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a folder has."""

    sizes: Sizes
    copy: Callable[[int, Sizes, Done], None]
    """Write these files into an open directory, whose directories are made."""


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

    def upload(
        self,
        source: Path,
        folder: str,
        names: Collection[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Store these files of `source` (None: all). Those that are there already are not sent again."""
        folder_parts(folder)
        with told(str(source)), local_files.opened(source) as origin:
            sizes = _source_files(source, origin, names)
            self._store(origin, folder, sizes, Counter(sum(sizes.values()), progress).add)

    def download(
        self,
        folder: str,
        target: Path,
        names: Collection[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Write these files (None: all) below `target`, which is made. Those that are there already are kept."""
        folder_parts(folder)
        with self._contents(folder) as found:
            wanted = set(found.sizes if names is None else names)
            if missing := wanted - found.sizes.keys():
                raise StorageError(f"{self.where}/{folder}/{min(missing)}: no such file")
            sizes = {name: found.sizes[name] for name in sorted(wanted)}
            with told(str(target)):
                target.mkdir(parents=True, exist_ok=True)
                with local_files.opened(target) as destination:
                    for name in sizes:
                        if name.endswith("/"):
                            local_files.make_directory(destination, name)
                    found.copy(destination, sizes, Counter(sum(sizes.values()), progress).add)

    @abstractmethod
    def _store(self, origin: int, folder: str, sizes: Sizes, done: Done) -> None:
        """Store these files of an open directory."""

    @abstractmethod
    def _contents(self, folder: str) -> AbstractContextManager[Contents]:
        """Raises CheckpointNotFound."""

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


def _source_files(source: Path, origin: int, names: Collection[str] | None) -> dict[str, int]:
    """What an upload sends, with sizes. Raises StorageError for what cannot be sent: it would be missing later."""
    sizes: dict[str, int] = {}
    wanted = None if names is None else set(names)
    for entry in local_files.walk(origin):
        if wanted is not None and entry.name not in wanted:
            continue
        if not entry.readable:
            raise StorageError(
                f"{source / entry.name}: a link that leads out of {source}, or no regular file: it cannot be "
                "stored; put the file itself there"
            )
        sizes[entry.name] = entry.size
    if wanted is not None and (missing := wanted - sizes.keys()):
        raise StorageError(f"{source / min(missing)}: no such file: it cannot be stored")
    return sizes
