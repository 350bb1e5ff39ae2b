"""Finding one's way in the log of a task: a window of it, its lines by time, and a search."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from master.logs.counts import LineCounts
from master.logs.reading import newest_id
from master.logs.regex_filter import LogSearch, RegexFilter
from master.logs.rows import LogQuery
from master.logs.searching import REGEX_LINES, TEXT_LINES, Buckets, Piece, Pieces, Step
from master.logs.tables import MINUTE_US
from master.logs.windows import Around, NumberedRow, Window, Windows
from master.store.sql.database import Database
from master.store.sql.faults import as_windlass_error
from master.store.sql.rows import fetch
from windlass.base.errors import WindlassError

SEARCHES_AT_ONCE = 2
"""Pieces that are read at the same time, of all searches: other readers have connections left."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Histogram:
    """Lines by time; buckets without any are left out."""

    total: int
    first_us: int
    """Where bucket 0 begins."""
    width_us: int
    buckets: Counter[int]

    def start_us(self, bucket: int) -> int:
        return self.first_us + bucket * self.width_us


class LogFinding:
    """Of one task at a time: queries name exactly one, and no limit."""

    def __init__(self, database: Database, regex: RegexFilter, counts: LineCounts) -> None:
        self._database = database
        self._regex = regex
        self._counts = counts
        self._windows = Windows(counts, database.dialect)
        self._searching = asyncio.Semaphore(SEARCHES_AT_ONCE)

    async def around(self, query: LogQuery, part: Around) -> Window:
        """Raises NotFound if a line is named by an id that none has."""
        return await self._read(lambda connection: self._windows.around(connection, query, part))

    async def since(self, query: LogQuery, id_: int, limit: int) -> Window:
        """The last of the lines that were stored after the one with this id."""
        return await self._read(
            lambda connection: self._windows.since(connection, query, id_, limit)
        )

    async def histogram(self, task_id: str, most_buckets: int) -> Histogram:
        """All lines, in whole minutes or multiples of them."""
        minutes = await self._read(lambda c: self._counts.by_minute(c, task_id))
        if not minutes:
            return Histogram(0, 0, MINUTE_US, Counter())
        first, last = minutes[0].minute, minutes[-1].minute
        width = max(1, -(-(last - first + 1) // most_buckets))
        buckets: Counter[int] = Counter()
        for minute, lines in minutes:
            buckets[(minute - first) // width] += lines
        return Histogram(sum(buckets.values()), first * MINUTE_US, width * MINUTE_US, buckets)

    async def search(
        self, query: LogQuery, buckets: Buckets, *, limit: int
    ) -> AsyncGenerator[Step, None]:
        """Steps until all lines were looked at that are stored now; the first one before any was.

        `limit`: of hits that are listed; all are counted. Raises InvalidArgument for an expression that is none.
        """
        expression = await self._regex.begin(query.search_text, query.by) if query.regex else None
        (task_id,) = query.task_ids
        total, newest = await self._read(
            lambda c: (self._counts.before(c, task_id), fetch(c, newest_id())[0] or 0)
        )
        pieces = Pieces(query, self._database.dialect, newest, buckets)
        step = Step(total=total)
        yield step
        piece: Piece | None = None
        size, told, listed = (REGEX_LINES if expression else TEXT_LINES), 0, 0
        step = Step(total=total)
        while piece := await self._piece(partial(pieces.next, last=piece, lines=size)):
            if expression is None:
                containing = partial(pieces.containing, piece=piece, limit=limit - listed)
                hits, counts = await self._piece(containing)
            else:
                hits, counts = await self._matching(expression, pieces, piece, limit - listed)
            listed += len(hits)
            step.add(piece, hits, counts)
            if hits or step.looked_at - told >= TEXT_LINES:
                told = step.looked_at
                yield step
                step = Step(looked_at=step.looked_at, total=step.total, found=step.found)
        step.looked_at = step.total = max(step.looked_at, step.total)
        yield step

    async def _matching(
        self, expression: LogSearch, pieces: Pieces, piece: Piece, limit: int
    ) -> tuple[list[NumberedRow], Counter[int]]:
        text = await self._piece(partial(pieces.text, piece=piece))
        if text is None or not await self._regex.may_be_in(expression, text):
            return [], Counter()
        rows = await self._piece(partial(pieces.rows, piece=piece))
        kept = await self._regex.keep(expression, rows)
        numbered = partial(pieces.numbered, piece=piece, rows=kept[:limit])
        return await self._piece(numbered), pieces.counted(kept)

    async def _piece(self, work: Callable[[Connection], T]) -> T:
        async with self._searching:
            return await self._read(work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self._database.read(work)
        except WindlassError:
            raise
        except Exception as error:
            raise as_windlass_error(error) from error
