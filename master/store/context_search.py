"""Lines of a packed context that contain a text. One pass over the archive, which takes time: for a thread."""

from __future__ import annotations

from dataclasses import dataclass, field

from master.store.context_files import HEAD_BYTES, content_type, members

MOST_HITS = 500
"""Lines that are shown; the others are counted."""
SHOWN_BEFORE, SHOWN_AFTER = 80, 220
"""Characters of a long line around what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineHit:
    path: str
    line: int
    """Counts from 1."""
    text: str
    """The line, or the part of it around the first hit."""


@dataclass(slots=True)
class FoundLines:
    hits: list[LineHit] = field(default_factory=list)
    """The first ones in the archive, by path and line."""
    total: int = 0
    files: int = 0
    """Text files that were looked through."""


def find_lines(archive: bytes, text: str, *, ignore_case: bool) -> FoundLines:
    """Files that are not text are left out; what is not UTF-8 in the others is shown as such."""
    found = FoundLines()
    wanted = text.lower() if ignore_case else text
    for path, tar, member in members(archive):
        content = tar.extractfile(member)
        if content is None:
            continue
        head = content.read(HEAD_BYTES)
        if content_type(path, head).startswith("text/"):
            found.files += 1
            whole = (head + content.read()).decode(errors="replace")
            if wanted in (whole.lower() if ignore_case else whole):
                _look_through(found, path, whole, wanted, ignore_case=ignore_case)
    found.hits.sort(key=lambda hit: (hit.path, hit.line))
    return found


def _look_through(
    found: FoundLines, path: str, whole: str, wanted: str, *, ignore_case: bool
) -> None:
    for number, line in enumerate(whole.split("\n"), start=1):
        at = (line.lower() if ignore_case else line).find(wanted)
        if at < 0:
            continue
        found.total += 1
        if len(found.hits) < MOST_HITS:
            found.hits.append(LineHit(path=path, line=number, text=_shown(line, at)))


def _shown(line: str, at: int) -> str:
    first, last = max(0, at - SHOWN_BEFORE), at + SHOWN_AFTER
    before, after = "…" if first else "", "…" if last < len(line) else ""
    return f"{before}{line[first:last].rstrip()}{after}"
