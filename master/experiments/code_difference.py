"""What differs between two texts or two sets of files, as unified diffs. All of it takes time: for a thread.

The time is bounded: files that are too large, and what is too much in all, are named and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from hashlib import sha256

from master.store.context_files import files_of

MAX_BYTES = 256 * 1024
"""Of a file that is compared by line."""
MAX_LINES = 4_000
"""The same: difflib needs up to the square of them."""
MAX_LINES_IN_ALL = 20_000
MAX_FILES = 500
"""That are listed."""
CONTEXT_LINES = 3
NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Content:
    """Of a file: what it holds, or only what tells it from others."""

    digest: bytes
    text: bytes | None
    """None: larger than what is compared."""


def _content(held: bytes) -> Content:
    return Content(sha256(held).digest(), held if len(held) <= MAX_BYTES else None)


NOTHING = _content(b"")


class FileChange(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    path: str
    change: FileChange
    diff: str = ""
    """Unified; empty: `why_not` says why there is none."""
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesDifference:
    files: tuple[FileDifference, ...] = ()
    """The first `MAX_FILES` of those that differ, by path."""
    differing: int = 0
    same: int = 0


def archives_difference(old: bytes, new: bytes) -> FilesDifference:
    """Of two packed contexts."""
    return files_difference(_contents(old), _contents(new))


def text_difference(name: str, old: str, new: str) -> str:
    """A unified diff of one text; empty if they are the same, or too long to be compared."""
    files = files_difference({name: _content(old.encode())}, {name: _content(new.encode())}).files
    return files[0].diff if files else ""


def files_difference(old: Mapping[str, Content], new: Mapping[str, Content]) -> FilesDifference:
    """Contents by path."""
    paths = sorted(old.keys() | new.keys())
    differing = [path for path in paths if old.get(path) != new.get(path)]
    found, left = [], MAX_LINES_IN_ALL
    for path in differing[:MAX_FILES]:
        one, lines = _file_difference(path, old.get(path), new.get(path), left)
        found.append(one)
        left -= lines
    return FilesDifference(
        files=tuple(found), differing=len(differing), same=len(paths) - len(differing)
    )


def _file_difference(
    path: str, old: Content | None, new: Content | None, left: int
) -> tuple[FileDifference, int]:
    """And how many lines were compared, of the `left` ones that may be."""
    change = FileChange.CHANGED
    if old is None or new is None:
        change = FileChange.ADDED if old is None else FileChange.REMOVED
    before, after = _lines(old or NOTHING), _lines(new or NOTHING)
    if isinstance(before, str) or isinstance(after, str):
        why = before if isinstance(before, str) else str(after)
        return FileDifference(path=path, change=change, why_not=why), 0
    lines = len(before) + len(after)
    if lines > left:
        why = f"more than {MAX_LINES_IN_ALL} lines in all: compare it by itself"
        return FileDifference(path=path, change=change, why_not=why), 0
    names = (
        "/dev/null" if old is None else f"a/{path}",
        "/dev/null" if new is None else f"b/{path}",
    )
    diff = unified_diff(before, after, *names, n=CONTEXT_LINES)
    text = "".join(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}" for line in diff)
    return FileDifference(path=path, change=change, diff=text), lines


def _contents(archive: bytes) -> dict[str, Content]:
    return {path: _content(held) for path, held in files_of(archive)}


def _lines(content: Content) -> list[str] | str:
    """Of a text, with their ends; or why it is not compared."""
    if content.text is None:
        return f"larger than {MAX_BYTES // 1024} KiB"
    try:
        text = content.text.decode()
    except UnicodeDecodeError:
        return "not text"
    if "\0" in text:
        return "not text"
    # Not splitlines: it also ends lines at characters that files have within lines.
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines if len(lines) <= MAX_LINES else f"more than {MAX_LINES} lines"
