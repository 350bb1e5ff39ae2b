"""The files that a TensorBoard shows, in one folder: links to those of directories, copies of those in buckets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.base.errors import InvalidArgument, NotFound, WindlassError
from windlass.storage import Storage, open_storage
from windlass.storage.base import folder_parts

FETCH_AT_ONCE = 5


@dataclass(frozen=True, slots=True)
class Source:
    """A folder of a storage, and what it is called here."""

    name: str
    folder: str
    storage: Storage


def read_sources(file: Path) -> list[Source]:
    """What the master wrote. Raises InvalidArgument for a file that is none, and what `open_storage` does."""
    opened: dict[str, Storage] = {}

    def storage_of(entry: Mapping[str, Any]) -> Storage:
        key = json.dumps([entry["storage"], entry["mount"]], sort_keys=True)
        if key not in opened:
            opened[key] = _open(entry["storage"], entry["mount"])
        return opened[key]

    try:
        entries = json.loads(file.read_text())["sources"]
        return [Source(entry["name"], entry["folder"], storage_of(entry)) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InvalidArgument(f"{file}: is this a TensorBoard? {problem}") from None


def _open(section: Mapping[str, Any], mount: Mapping[str, str] | None) -> Storage:
    """Where nothing can be mounted the task sees the folders of its node as they are."""
    seen_at = Path(mount["target"]) if mount is not None else None
    return open_storage(
        section, shared_fs_at=seen_at if seen_at is not None and seen_at.is_dir() else None
    )


class Files:
    """Of all sources. `fetch` again and again shows what was added meanwhile."""

    def __init__(self, sources: Iterable[Source], folder: Path) -> None:
        self._folder = folder
        self._linked: list[Path] = []
        self._copied: list[Source] = []
        self._problems: dict[str, str] = {}
        for source in sources:
            place = folder.joinpath(*folder_parts(source.name))
            place.parent.mkdir(parents=True, exist_ok=True)
            if (local := source.storage.local_path(source.folder)) is None:
                self._copied.append(source)
            else:
                # It may not be there yet: TensorBoard looks again.
                place.symlink_to(local, target_is_directory=True)
                self._linked.append(place)

    @property
    def fetches(self) -> bool:
        """Whether there is anything to fetch."""
        return bool(self._copied)

    def any(self) -> bool:
        """Whether there is a file yet."""
        copied = (self._folder.joinpath(source.name) for source in self._copied)
        return any(
            any(files) for place in (*self._linked, *copied) for _, _, files in os.walk(place)
        )

    def fetch(self) -> Sequence[str]:
        """Copy what is new. Problems, a line each, that were not there the last time."""
        with ThreadPoolExecutor(FETCH_AT_ONCE) as threads:
            found = dict(
                zip(
                    (source.name for source in self._copied),
                    threads.map(self._fetched, self._copied),
                    strict=True,
                )
            )
        new = [line for name, line in found.items() if line and self._problems.get(name) != line]
        self._problems = found
        return list(dict.fromkeys(new))

    def _fetched(self, source: Source) -> str:
        """The problem; empty: there is none."""
        try:
            copy_new(source, self._folder.joinpath(source.name))
        except NotFound:
            return ""  # nothing is written yet, or it is deleted
        except (WindlassError, OSError, ValueError) as problem:
            return f"{source.folder} of {source.storage.where}: {problem}"
        return ""


def copy_new(source: Source, place: Path) -> None:
    """Files that are missing, and what others have grown by.

    Readers keep them open: one that grew is appended to, never replaced.
    """
    for name, size in source.storage.files(source.folder).items():
        path = place.joinpath(*folder_parts(name.rstrip("/")))
        if name.endswith("/"):
            continue
        have = _size(path)
        if have == size:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = have if have is not None and have < size else 0
        with suppress(NotFound), path.open("ab") as file:
            file.truncate(kept)
            for piece in _after(kept, source.storage.read(source.folder, name)):
                file.write(piece)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _after(skipped: int, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        yield piece[skipped:]
        skipped = max(0, skipped - len(piece))
