"""SQLite files, looked at and copied while a master writes to them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from windlass.base.errors import InvalidState

BUSY_S = 30.0


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing. Raises InvalidState if there is no such file."""
    with closing(open_reading(path)) as connection:
        yield connection


def open_reading(path: Path) -> sqlite3.Connection:
    """As `reading`, to be closed by the caller, in any thread."""
    if not path.is_file():
        raise InvalidState(f"{path} is missing")
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(
        uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )


def copy_live(source: Path, target: Path) -> None:
    """A copy of one moment. It reads as any reader does: the writer goes on meanwhile.

    Raises InvalidState if the source is damaged: that is no backup.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with reading(source) as live, closing(sqlite3.connect(target)) as copy:
            live.backup(copy)  # all pages in one step, so in one read transaction
            copy.execute("PRAGMA journal_mode=DELETE")
            found = [row[0] for row in copy.execute("PRAGMA quick_check(3)")]
    except sqlite3.DatabaseError as error:
        raise InvalidState(f"{source} is damaged, nothing was backed up: {error}") from error
    if found != ["ok"]:
        raise InvalidState(f"{source} is damaged, nothing was backed up: {'; '.join(found)}")
    descriptor = os.open(target, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
