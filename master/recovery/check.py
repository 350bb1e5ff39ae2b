"""Whether a data folder and its databases are whole, looked at in full. It changes nothing, and a master may run."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from master.recovery import postgres_copy
from master.recovery.backup import BLOBS
from master.recovery.decision import Refuse, decide
from master.recovery.inspection import look
from master.recovery.places import DataPlaces
from master.recovery.sqlite_files import reading
from master.recovery.state_facts import blobs_of_file
from master.store.blobs import blob_path
from windlass.base.errors import InvalidState, StoreUnavailable

MAX_PROBLEMS = 20
"""Of one kind that are shown: a damaged file may have thousands."""


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    problems: tuple[str, ...] = ()


async def check(places: DataPlaces, *, full: bool) -> list[Finding]:
    """`full` reads everything: databases page by page, and every file that the state names."""
    findings = [await _at_a_start(places)]
    if not full:
        return findings
    if places.files is None:
        findings.append(await _server(places.url))
        blobs = await postgres_copy.named_blobs_of(places.url) if not findings[-1].problems else ()
        findings.append(await asyncio.to_thread(_blobs, places.folder, blobs))
        return findings
    state, logs = places.files.state, places.files.logs
    for file in (state, logs):
        findings.append(await asyncio.to_thread(_finding, f"{file}: pages", _pages, file))
    findings.append(await asyncio.to_thread(_finding, f"{state}: references", _references, state))
    findings.append(await asyncio.to_thread(_named_files, places.folder, state))
    return findings


async def _at_a_start(places: DataPlaces) -> Finding:
    what = f"{places.folder}: what a start would say"
    try:
        decision = decide(await look(places, inline=False))
    except (InvalidState, StoreUnavailable) as error:
        return Finding(what, (error.message,))
    return Finding(what, (decision.text,) if isinstance(decision, Refuse) else ())


def _finding(what: str, look_at: Callable[[Path], list[str]], file: Path) -> Finding:
    try:
        found = look_at(file)
    except (sqlite3.Error, InvalidState) as error:
        found = [str(error)]
    return Finding(what, tuple(found))


def _pages(file: Path) -> list[str]:
    with reading(file) as database:
        found = [str(row[0]) for row in database.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")]
    return [] if found == ["ok"] else found


def _references(file: Path) -> list[str]:
    with reading(file) as database:
        rows = database.execute("PRAGMA foreign_key_check").fetchmany(MAX_PROBLEMS)
    return [
        f"row {row} of {table} refers to a row of {parent} that is missing"
        for table, row, parent, _ in rows
    ]


def _named_files(folder: Path, state: Path) -> Finding:
    try:
        return _blobs(folder, blobs_of_file(state))
    except Exception as error:  # noqa: BLE001  (a damaged database: its own finding says how)
        return Finding(f"{folder / BLOBS}: files", (f"the database does not say which: {error}",))


def _blobs(folder: Path, blobs: Iterable[str]) -> Finding:
    problems = []
    for blob_id in sorted(blobs):
        path = blob_path(folder / BLOBS, blob_id)
        if not path.is_file():
            problems.append(f"{path} is missing")
            continue
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != blob_id:
                problems.append(f"{path} is damaged: its content has another hash")
    return Finding(f"{folder / BLOBS}: files", tuple(problems[:MAX_PROBLEMS]))


async def _server(url: str) -> Finding:
    """PostgreSQL checks references itself; that every row can be read is what is left to find out."""
    what = "the PostgreSQL database: every row"
    try:
        await postgres_copy.read_all(url)
    except (InvalidState, StoreUnavailable) as error:
        return Finding(what, (error.message,))
    return Finding(what)
