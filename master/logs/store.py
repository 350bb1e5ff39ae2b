"""The log store: its own database file (or tables and connections), its own writer.

logs = await LogStore.open(db_url)
async with asyncio.TaskGroup() as group:
    group.create_task(logs.run())
    await logs.append([TaskLog(...)])
    async with aclosing(logs.follow(LogQuery(task_ids=("1.abc",)), until=ended)) as pages:
        async for rows in pages: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Select, select

from agent_bootstrap.protocol import LogBatch
from master.logs.counts import LineCounts, uncounted_to
from master.logs.finding import LogFinding
from master.logs.following import Follower, Followers, IdRange, wait_for_any
from master.logs.ingest import (
    DELETE_ROWS,
    DeleteSome,
    LogWork,
    LogWriting,
    Written,
    tasks_of,
    weigh,
)
from master.logs.reading import (
    PAGE_ROWS,
    Fields,
    Position,
    fields_of,
    newest_id,
    page_of,
    to_row,
    with_fields,
)
from master.logs.regex_filter import LogSearch, RegexFilter
from master.logs.rows import LogFields, LogQuery, LogRow, TaskLine
from master.logs.tables import LOGS, LogMeta, LogOffset
from master.store.migrate import upgrade
from master.store.sql.database import Database, open_database, parse_url
from master.store.sql.faults import as_windlass_error
from master.store.sql.rows import fetch
from master.store.sql.statements import upsert_row
from master.store.sql.writer import Lane, Writer
from windlass.base.errors import InvalidArgument

T = TypeVar("T")

BATCH_LINES = 1_000
"""Lines in one transaction. A thread that converts more would hold the interpreter for too long."""
MAX_WAITING_LINES = 500_000
FOLLOW_GRACE_S = 1.0
"""After a task has ended, its last lines may still be on their way."""


def logs_url(db_url: str) -> str:
    """Where the logs of a master with this `db.url` are: `logs.db` beside a SQLite file, else the same server."""
    url = parse_url(db_url)
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        directory, slash, _ = url.database.rpartition("/")
        url = url.set(database=f"{directory}{slash}logs.db")
    return url.render_as_string(hide_password=False)


class LogStore:
    """Implements `rm_backends.ports.LogSink`."""

    def __init__(self, database: Database, uncounted_to: int) -> None:
        """Use `open`."""
        self._database = database
        self._dialect = database.dialect
        self._lane: Lane[LogWork, Written] = Lane(
            LogWriting(uncounted_to).apply,
            weigh=weigh,
            batch_weight=BATCH_LINES,
            max_waiting=MAX_WAITING_LINES,
            committed=self._committed,
        )
        self._writer = Writer(database, (self._lane,))
        self._followers = Followers()
        self._regex = RegexFilter()
        self._counts = LineCounts(uncounted_to)
        self.finding = LogFinding(database, self._regex, self._counts)

    @classmethod
    async def open(cls, db_url: str, *, inline: bool = False) -> LogStore:
        """`db_url` is the master's; see `logs_url`."""
        url = logs_url(db_url)
        database = open_database(url, inline=inline, synchronous="NORMAL")
        try:
            await database.write(lambda connection: upgrade(connection, LOGS))
            uncounted = await database.read(uncounted_to)
        except BaseException as error:
            await database.close()
            raise as_windlass_error(error) if isinstance(error, Exception) else error from error
        return cls(database, uncounted)

    async def belong_to(self, cluster_id: str) -> None:
        """Note whose logs these are. Before `run`."""
        row = {"key": "cluster_id", "value": cluster_id}
        try:
            await self._database.write(lambda connection: upsert_row(connection, LogMeta, row))
        except Exception as error:
            raise as_windlass_error(error) from error

    async def run(self) -> None:
        """The writer, owned by a task group. Without it nothing is stored."""
        await self._writer.run()

    async def close(self) -> None:
        """After `run` has ended."""
        await self._regex.close()
        await self._database.close()

    async def ingest(self, batch: LogBatch) -> int:
        """Store a batch that begins where the container's last one ended; the offset at which the next must begin.

        Any other batch changes nothing: the answer tells the agent where to go on, back or forth.
        """
        return (await self._writer.submit(self._lane, batch)).next_offset

    async def append(self, entries: Sequence[TaskLine]) -> None:
        """Store lines that do not come from an agent's log files."""
        if entries:
            await self._writer.submit(self._lane, tuple(entries))

    async def next_offset(self, container_id: str) -> int:
        """From which byte on a container's output is wanted."""
        found = await self._rows(
            select(LogOffset.next_offset).where(LogOffset.container_id == container_id)
        )
        return found[0] if found else 0

    async def delete(self, task_ids: Iterable[str]) -> int:
        """Delete all lines of ended tasks; how many there were."""
        deleted = 0
        for task_id in task_ids:
            while True:
                written = await self._writer.submit(self._lane, DeleteSome(task_id))
                deleted += written.deleted
                if written.deleted < DELETE_ROWS:
                    break
            self._counts.forget(task_id)
        return deleted

    async def query(self, query: LogQuery) -> list[LogRow]:
        """The lines, all in memory: for a `limit`, or for short logs. Else see `pages`."""
        async with aclosing(self.pages(query)) as pages:
            return [row async for page in pages for row in page]

    async def pages(self, query: LogQuery) -> AsyncGenerator[Sequence[LogRow], None]:
        """The lines that are stored now, a page at a time."""
        search = await self._checked(query)
        async with aclosing(self._search(query, search, await self._ids_until_now())) as pages:
            async for page in pages:
                yield page

    async def follow(
        self,
        query: LogQuery,
        *,
        until: asyncio.Event | None = None,
        grace_s: float = FOLLOW_GRACE_S,
    ) -> AsyncGenerator[Sequence[LogRow], None]:
        """The lines that are stored, then those that come, a page at a time, each line once.

        Ends when `until` (the task has ended) is set and no line has come for `grace_s`; without it, never.
        """
        if query.limit:
            raise InvalidArgument("limit: a followed log has no end to count to: leave it out")
        search = await self._checked(query)
        query = replace(query, descending=False)
        follower = Follower(query.task_ids)
        self._followers.add(follower)
        try:
            ids = await self._ids_until_now()
            async with aclosing(self._search(query, search, ids)) as pages:
                async for page in pages:
                    yield page
            while await _more(follower, until, grace_s):
                for first, last in follower.take():
                    new = (max(first, ids[1] + 1), last)
                    async with aclosing(self._search(query, search, new, narrow=True)) as pages:
                        async for page in pages:
                            yield page
        finally:
            self._followers.remove(follower)

    async def fields(self, task_ids: Sequence[str]) -> LogFields:
        """Of the lines that are stored now."""
        return await self._with_fields(LogFields(), task_ids, await self._ids_until_now())

    async def follow_fields(
        self, task_ids: Sequence[str], until: asyncio.Event, *, grace_s: float = FOLLOW_GRACE_S
    ) -> AsyncGenerator[LogFields, None]:
        """All there are, first and whenever there are more. Ends as `follow` does."""
        follower = Follower(task_ids)
        self._followers.add(follower)
        try:
            ids = await self._ids_until_now()
            known = await self._with_fields(LogFields(), task_ids, ids)
            yield known
            while await _more(follower, until, grace_s):
                seen = known
                for first, last in follower.take():
                    new = (max(first, ids[1] + 1), last)
                    known = await self._with_fields(known, task_ids, new)
                if known != seen:
                    yield known
        finally:
            self._followers.remove(follower)

    async def _with_fields(
        self, known: LogFields, task_ids: Sequence[str], ids: IdRange
    ) -> LogFields:
        statement = fields_of(task_ids, ids)
        try:
            rows = await self._database.read(lambda c: fetch(c, statement, Fields))
        except Exception as error:
            raise as_windlass_error(error) from error
        return with_fields(known, rows)

    async def _checked(self, query: LogQuery) -> LogSearch | None:
        """Its search for a regular expression, if it is one."""
        if query.limit < 0:
            raise InvalidArgument(f"limit: {query.limit} is negative: use 0 for all lines")
        return await self._regex.begin(query.search_text, query.by) if query.regex else None

    def _committed(self, work: LogWork, written: Written) -> None:
        if written.last_id >= written.first_id:
            self._followers.stored(tasks_of(work), (written.first_id, written.last_id))

    async def _ids_until_now(self) -> IdRange:
        (newest,) = await self._rows(newest_id())
        return (0, newest or 0)

    async def _search(
        self, query: LogQuery, search: LogSearch | None, ids: IdRange, *, narrow: bool = False
    ) -> AsyncGenerator[Sequence[LogRow], None]:
        """Pages with ids in a range, up to the limit, through the regular expression if there is one."""
        left = query.limit
        # With an expression, whole pages are read until enough lines matched.
        limit = 0 if search else query.limit
        async with aclosing(self._read(query, ids, limit=limit, narrow=narrow)) as pages:
            async for page in pages:
                rows = await self._regex.keep(search, page) if search else page
                rows = rows[:left] if query.limit else rows
                if rows:
                    yield rows
                left -= len(rows)
                if query.limit and left <= 0:
                    return

    async def _read(
        self, query: LogQuery, ids: IdRange, *, limit: int, narrow: bool
    ) -> AsyncGenerator[Sequence[LogRow], None]:
        """Pages by SQL alone. `limit` 0: all."""
        left = limit
        for task_id in reversed(query.task_ids) if query.descending else query.task_ids:
            past: Position | None = None
            while not limit or left:
                size = min(PAGE_ROWS, left) if limit else PAGE_ROWS
                statement = page_of(
                    query, task_id, self._dialect, ids, past=past, limit=size, narrow=narrow
                )
                found = await self._rows(statement)
                if found:
                    yield [to_row(row) for row in found]
                    past = (found[-1].timestamp, found[-1].id)
                    left -= len(found)
                if len(found) < size:
                    break

    async def _rows(self, statement: Select[T]) -> list[T]:
        try:
            return await self._database.read(lambda connection: fetch(connection, statement))
        except Exception as error:
            raise as_windlass_error(error) from error


async def _more(follower: Follower, until: asyncio.Event | None, grace_s: float) -> bool:
    """Wait for new lines; False when the end has come instead."""
    if until is None:
        await follower.woken.wait()
        return True
    if not until.is_set():
        await wait_for_any(follower.woken, until)
    return follower.woken.is_set() or await wait_for_any(follower.woken, timeout_s=grace_s)
