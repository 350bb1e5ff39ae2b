"""Which files a delete is about: the globs of the published client, by Python's rules for `glob.glob`. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import translate
from functools import lru_cache

from windlass.base.errors import InvalidArgument

MOST_GLOBS = 1_000


def matching(names: Iterable[str], globs: Collection[str]) -> set[str]:
    """Of these names (directories end in "/") those that a glob names, or that lie below a directory it names."""
    if len(globs) > MOST_GLOBS:
        raise InvalidArgument(f"{len(globs)} globs: at most {MOST_GLOBS} at once")
    patterns = [_checked(glob) for glob in globs]
    found: set[str] = set()
    for name in sorted(names):  # a directory comes before what lies below it
        if any(_matches(name, pattern) for pattern in patterns) or _below(name, found):
            found.add(name)
    return found


def _below(name: str, directories: set[str]) -> bool:
    end = name.rstrip("/").rfind("/")
    while end > 0:
        if name[: end + 1] in directories:
            return True
        end = name.rfind("/", 0, end)
    return False


def _checked(glob: str) -> tuple[str, ...]:
    parts = tuple(part for part in glob.split("/") if part not in ("", "."))
    if not parts or ".." in parts or glob.startswith("/"):
        raise InvalidArgument(f"glob {glob!r}: must be relative to the checkpoint, without `..`")
    return (*parts, "") if glob.endswith("/") else parts


def _matches(name: str, pattern: tuple[str, ...]) -> bool:
    is_directory = name.endswith("/")
    if pattern[-1] == "":
        if not is_directory:
            return False
        pattern = pattern[:-1]
    return _parts_match(tuple(name.rstrip("/").split("/")), pattern, is_directory)


def _parts_match(parts: tuple[str, ...], pattern: tuple[str, ...], is_directory: bool) -> bool:
    if not pattern:
        return not parts
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        if _parts_match(parts, rest, is_directory):
            return True
        return (
            bool(parts) and not _hidden(parts[0]) and _parts_match(parts[1:], pattern, is_directory)
        )
    return (
        bool(parts)
        and (not _hidden(parts[0]) or _hidden(first))
        and _regex(first).match(parts[0]) is not None
        and _parts_match(parts[1:], rest, is_directory)
    )


def _hidden(part: str) -> bool:
    return part.startswith(".")


@lru_cache(maxsize=1024)
def _regex(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
