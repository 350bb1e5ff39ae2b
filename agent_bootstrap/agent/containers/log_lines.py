"""From the supervisor's output file to log entries."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

from agent_bootstrap.bounds import (
    FIRST_MOMENT,
    LAST_MOMENT,
    MAX_BATCH_BYTES,
    MAX_BATCH_LINES,
    MAX_LINE_CHARS,
)
from agent_bootstrap.protocol import LogEntry, LogLevel

_STREAMS: dict[bytes, Literal["stdout", "stderr"]] = {b"o": "stdout", b"e": "stderr"}
_PREFIXES = re.compile(
    r"(?: ?\[rank=(?P<rank>\d{1,9})\] ?)?(?: ?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): ?)?(?P<text>.*)",
    re.DOTALL,
)
_FIRST, _LAST = (int(moment.timestamp()) * 1_000_000 for moment in (FIRST_MOMENT, LAST_MOMENT))
_MOST_DIGITS = 20
"""Enough to see that a number is no time."""


@dataclass(frozen=True, slots=True)
class OutputLines:
    """Consecutive lines of an output file, up to byte `next_offset`."""

    entries: tuple[LogEntry, ...]
    next_offset: int


def read_lines(path: Path, offset: int, *, complete: bool) -> OutputLines:
    """At most 1000 lines from byte `offset` on. `complete`: nobody writes any more, a torn last line is skipped.

    A master that was restored from a backup wants lines again that are gone: zeros, which are skipped.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return OutputLines((), offset)
    try:
        data = os.pread(descriptor, MAX_BATCH_BYTES, offset)
    finally:
        os.close(descriptor)
    if gone := len(data) - len(data.lstrip(b"\0")):
        return OutputLines((), offset + gone)
    records = data.split(b"\n")
    torn = records.pop()
    taken = records[:MAX_BATCH_LINES]
    consumed = sum(map(len, taken)) + len(taken)
    if complete and not taken:
        consumed = len(torn)
    entries = tuple(entry for record in taken if (entry := parse_record(record)) is not None)
    return OutputLines(entries, offset + consumed)


def parse_record(record: bytes) -> LogEntry | None:
    """`<microseconds> <o|e> <text>`; None for what a full disk tore apart."""
    parts = record.split(b" ", 2)
    if len(parts) != 3 or parts[1] not in _STREAMS or not parts[0].isdigit():
        return None
    microseconds = int(parts[0][:_MOST_DIGITS])
    if not _FIRST <= microseconds <= _LAST:
        return None
    match = _PREFIXES.match(parts[2].decode(errors="replace"))
    if match is None:
        return None
    rank = match["rank"]
    return LogEntry(
        timestamp=datetime.fromtimestamp(microseconds / 1e6, UTC),
        stdtype=_STREAMS[parts[1]],
        log=match["text"][:MAX_LINE_CHARS],
        level=cast("LogLevel | None", match["level"]),
        rank_id=None if rank is None else int(rank),
    )
