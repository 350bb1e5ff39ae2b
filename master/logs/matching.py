"""Trying a user's regular expression on lines, in a thread, a slice of CPU time at once.

A match is linear in its line, and still takes long where expression and line are large: so the size of both together
is bounded, too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from master.core.patterns import Pattern

SLICE_S = 0.1
"""Of CPU time, until it is somebody else's turn."""
MOST_STEPS = 2**25
"""Of one match, which nothing can stop: about two seconds at the worst."""
GROUP_STEPS = 2**21
"""Lines are first tried together, as many as this is enough for."""


@dataclass(frozen=True, slots=True)
class Slice:
    """How far one slice went."""

    matched: list[int]
    """Positions of lines."""
    looked_at: int
    spent_s: float
    too_large: int = 0
    """Bytes of the last line looked at, where this expression is not tried on it."""


def look(pattern: Pattern, lines: Sequence[str]) -> Slice:
    start = time.thread_time()
    matched: list[int] = []
    done = 0
    while done < len(lines):
        if (size := _bytes(lines[done])) * pattern.size > MOST_STEPS:
            return Slice(matched, done + 1, time.thread_time() - start, too_large=size)
        group = _group(lines, done, GROUP_STEPS // pattern.size)
        if len(group) == 1 or pattern.may_be_in("\n".join(group).encode(errors="replace")):
            matched += [at for at, line in enumerate(group, done) if pattern.is_in(line)]
        done += len(group)
        if (spent := time.thread_time() - start) > SLICE_S:
            return Slice(matched, done, spent)
    return Slice(matched, done, time.thread_time() - start)


@dataclass(frozen=True, slots=True)
class Glance:
    """How far one slice went through lines that stand together."""

    may_match: bool
    """In the part that was looked at, which is the last one then."""
    to: int
    """Byte at which the next slice begins."""
    spent_s: float


def glance(pattern: Pattern, text: bytes, begin: int) -> Glance:
    """Whether the pattern may be in one of these lines, from one on; False is certain."""
    start = time.thread_time()
    most = max(1, GROUP_STEPS // pattern.size)
    while begin <= len(text):  # a last line may be empty
        end = len(text)
        if end - begin > most:
            broken = text.rfind(b"\n", begin, begin + most)
            if broken < 0:
                broken = text.find(b"\n", begin)
            end = broken if broken >= 0 else end
        # One line alone may be too large for this expression, which `look` says.
        if (end - begin) * pattern.size > MOST_STEPS or pattern.may_be_in(text[begin:end]):
            return Glance(True, end, time.thread_time() - start)
        begin = end + 1
        if (spent := time.thread_time() - start) > SLICE_S:
            return Glance(False, begin, spent)
    return Glance(False, begin, time.thread_time() - start)


def _group(lines: Sequence[str], first: int, most_bytes: int) -> Sequence[str]:
    """At least one."""
    after, size = first + 1, _bytes(lines[first])
    while after < len(lines) and (size := size + _bytes(lines[after])) <= most_bytes:
        after += 1
    return lines[first:after]


def _bytes(line: str) -> int:
    """At most."""
    return len(line) if line.isascii() else 4 * len(line)
