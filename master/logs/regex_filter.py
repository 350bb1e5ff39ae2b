"""Searching the lines of task logs for a user's regular expression, in threads of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from master.core.patterns import Pattern
from master.logs.rows import LogRow
from windlass.base.errors import InvalidArgument

DEADLINE_S = 5.0
"""Of CPU time for one page, which takes milliseconds."""
THREADS = 2
"""Shared by all searches: they neither wait for others' work nor keep others waiting."""


class RegexFilter:
    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._threads = ThreadPoolExecutor(THREADS, "log-search")

    async def compile(self, text: str) -> Pattern:
        """Raises InvalidArgument if it is no regular expression, or not a supported one."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _compiled, text)

    async def keep(self, pattern: Pattern, rows: Sequence[LogRow]) -> Sequence[LogRow]:
        """The rows in which the pattern is found. Raises InvalidArgument if that takes too long."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._matching, pattern, rows
        )

    def _matching(self, pattern: Pattern, rows: Sequence[LogRow]) -> Sequence[LogRow]:
        until = time.thread_time() + self._deadline_s
        kept: list[LogRow] = []
        for row in rows:
            if pattern.is_in(row.log):
                kept.append(row)
            if time.thread_time() > until:
                raise InvalidArgument(
                    f"searchText: these lines take more than {self._deadline_s:g} seconds to search:"
                    " write a simpler expression"
                )
        return kept

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)


def _compiled(text: str) -> Pattern:
    try:
        return Pattern(text)
    except ValueError as error:
        cut = text if len(text) <= 100 else text[:100] + "..."
        raise InvalidArgument(f'searchText: "{cut}" is no regular expression: {error}') from None
