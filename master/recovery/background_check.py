"""Looks through the database files once while the master works, so that damage is known before it is met."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import structlog

from master.recovery.identity import way_back
from master.recovery.sqlite_files import open_reading

log = structlog.get_logger(__name__)

MAX_PROBLEMS = 3
"""Of one file, for the log; `windlass master check --db` tells all."""
INTERRUPT_AGAIN_S = 0.05


class BackgroundCheck:
    """Of a data folder's databases. A task group owns `run()`."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        self.damaged: dict[Path, str] = {}
        """What was found in which file."""
        self.done = asyncio.Event()
        self._folder = folder
        self._files = files

    async def run(self) -> None:
        for file in self._files:
            found = await _quick_check(file)
            if found:
                self.damaged[file] = found
                log.error(
                    "database is damaged", file=str(file), found=found, do=way_back(self._folder)
                )
        self.done.set()


async def _quick_check(file: Path) -> str:
    """What is wrong with it; empty: nothing. On a connection of its own, in a thread; a cancelled one ends at once."""
    with closing(open_reading(file)) as connection:

        def check() -> str:
            rows = connection.execute(f"PRAGMA quick_check({MAX_PROBLEMS})").fetchall()
            found = "; ".join(str(row[0]) for row in rows)
            return "" if found == "ok" else found

        checking = asyncio.ensure_future(asyncio.to_thread(check))
        try:
            return await asyncio.shield(checking)
        except sqlite3.DatabaseError as error:
            return str(error)
        except asyncio.CancelledError:
            while not checking.done():  # an interrupt before the statement has begun has no effect
                connection.interrupt()
                await asyncio.wait([checking], timeout=INTERRUPT_AGAIN_S)
            checking.exception()
            raise
