"""Which files a delete is about: the globs of the published client, by Python's rules for `glob.glob`. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
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
    elif pattern[-1] == "**" and not is_directory:
        pattern = (*pattern, "*")  # what comes before is a directory
    return _parts_match(name.rstrip("/").split("/"), pattern)


def _parts_match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """All ways of reading the pattern at once: a user's `**/**/**/x` takes no more than parts times pattern."""
    at = _with_nothing_for_stars({0}, pattern)
    for part in parts:
        after: set[int] = set()
        for place in at - {len(pattern)}:
            glob = pattern[place]
            if glob == "**":
                after.update(() if _hidden(part) else (place,))
            elif (not _hidden(part) or _hidden(glob)) and _regex(glob).match(part):
                after.add(place + 1)
        at = _with_nothing_for_stars(after, pattern)
    return len(pattern) in at


def _with_nothing_for_stars(places: set[int], pattern: Sequence[str]) -> set[int]:
    found = set(places)
    for place in places:
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            found.add(place)
    return found


def _hidden(part: str) -> bool:
    return part.startswith(".")


@lru_cache(maxsize=1024)
def _regex(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
