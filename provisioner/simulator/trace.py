"""Traces of jobs: a CSV file with a row for each job, in the order of arrival.

Columns: `arrival_s`, `slots` (or `gpus`), `duration_s`; optional: `job_id`, `user`, `pool`, `preemptible`,
`single_agent`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path

from windlass.base.errors import InvalidConfig

REQUIRED = ("arrival_s", "slots", "duration_s")
OPTIONAL = ("job_id", "user", "pool", "preemptible", "single_agent")
SYNONYMS = {"gpus": "slots"}
SHOWN_PROBLEMS = 10
"""So many bad rows are named; the rest is counted."""
MAX_SLOTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job: a gang of slots that it holds for `duration_s` of work."""

    job_id: str
    arrival_s: float
    """Since the beginning of the trace."""
    slots: int
    duration_s: float
    user: str = ""
    pool: str = ""
    """Empty: the default pool."""
    preemptible: bool = True
    """It checkpoints and leaves when it is asked to."""
    single_agent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    jobs: Sequence[TraceJob]
    """In the order of arrival."""
    skipped: int = 0
    """Bad rows that were left out."""


def read_trace(path: Path, *, lenient: bool = False) -> Trace:
    """Every row of the file. `lenient` leaves bad rows out and sorts by arrival.

    Raises InvalidConfig, which names the first bad rows by line, and OSError.
    """
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        return parse_trace(file, str(path), lenient=lenient)


def parse_trace(lines: Iterable[str], name: str, *, lenient: bool = False) -> Trace:
    """`name` is how errors call the file."""
    rows = csv.reader(lines)
    columns = _columns(next(rows, []), name)
    jobs: list[TraceJob] = []
    problems = _Problems()
    seen: set[str] = set()
    last = 0.0
    for line, row in _numbered(rows, problems):
        if not any(row):
            continue
        try:
            job = _job(columns, row, default_id=str(line - 1))
            if job.job_id in seen:
                raise ValueError(f"job_id {job.job_id} is there twice")
            if job.arrival_s < last and not lenient:
                raise ValueError(
                    f"arrival_s {job.arrival_s:g} is before the row above ({last:g}): sort the file by arrival_s"
                )
        except ValueError as error:
            problems.add(line, str(error))
            continue
        seen.add(job.job_id)
        last = job.arrival_s
        jobs.append(job)
    if problems.count and not lenient:
        raise InvalidConfig(problems.lines(), what=f"trace {name}")
    if not jobs:
        raise InvalidConfig(["no jobs: a row for each job is expected"], what=f"trace {name}")
    if lenient:
        jobs.sort(key=lambda job: job.arrival_s)
    return Trace(jobs=jobs, skipped=problems.count)


class _Problems:
    """The first of them in words, and how many there are."""

    def __init__(self) -> None:
        self.count = 0
        self._lines: list[str] = []

    def add(self, line: int, text: str) -> None:
        self.count += 1
        if len(self._lines) < SHOWN_PROBLEMS:
            self._lines.append(f"line {line}: {text}")

    def lines(self) -> list[str]:
        rest = self.count - len(self._lines)
        more = [f"and {rest} more bad rows"] if rest else []
        return [*self._lines, *more, "--lenient skips bad rows and sorts the others by arrival_s"]


def _numbered(
    rows: Iterator[list[str]], problems: _Problems
) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows with their line numbers, the header being line 1."""
    line = 1
    while True:
        line += 1
        try:
            yield line, next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            problems.add(line, str(error))


def _columns(header: Sequence[str], name: str) -> Mapping[str, int]:
    names = [SYNONYMS.get(cell.strip(), cell.strip()) for cell in header]
    known = (*REQUIRED, *OPTIONAL)
    problems = [f"line 1: column {x} is missing" for x in REQUIRED if x not in names]
    for each in names:
        if each not in known:
            near = get_close_matches(each, (*known, *SYNONYMS), n=1)
            hint = f": did you mean {near[0]}?" if near else f" (known: {', '.join(known)})"
            problems.append(f"line 1: column {each!r} is unknown{hint}")
        elif names.count(each) > 1 and f"line 1: column {each} is there twice" not in problems:
            problems.append(f"line 1: column {each} is there twice")
    if problems:
        raise InvalidConfig(problems, what=f"trace {name}")
    return {column: number for number, column in enumerate(names)}


def _job(columns: Mapping[str, int], row: Sequence[str], *, default_id: str) -> TraceJob:
    """Raises ValueError that names column and value."""
    if len(row) != len(columns):
        raise ValueError(f"{len(row)} cells, but {len(columns)} columns")
    cells = {column: row[number].strip() for column, number in columns.items()}
    slots = _parsed(cells, "slots", int)
    if not 0 < slots <= MAX_SLOTS:
        raise ValueError(f"slots {slots} must be from 1 to {MAX_SLOTS}")
    return TraceJob(
        job_id=cells.get("job_id") or default_id,
        arrival_s=_seconds(cells, "arrival_s"),
        slots=slots,
        duration_s=_seconds(cells, "duration_s"),
        user=cells.get("user", ""),
        pool=cells.get("pool", ""),
        preemptible=_truth(cells, "preemptible", default=True),
        single_agent=_truth(cells, "single_agent", default=False),
    )


def _parsed(cells: Mapping[str, str], column: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(cells[column])
    except ValueError:
        raise ValueError(f"{column} {cells[column]!r} is no whole number") from None


def _seconds(cells: Mapping[str, str], column: str) -> float:
    try:
        value = float(cells[column])
    except ValueError:
        raise ValueError(f"{column} {cells[column]!r} is no number") from None
    if not isfinite(value) or value < 0:
        raise ValueError(f"{column} {cells[column]} must be a number of seconds from 0 on")
    return value


_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _truth(cells: Mapping[str, str], column: str, *, default: bool) -> bool:
    text = cells.get(column, "")
    if not text:
        return default
    if text.lower() not in _TRUTHS:
        raise ValueError(f"{column} {text!r} must be true or false")
    return _TRUTHS[text.lower()]
