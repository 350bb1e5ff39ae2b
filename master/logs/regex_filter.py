"""Regular expressions of users, matched in processes of their own.

Some patterns take for ever on some lines, and Python's `re` holds the interpreter lock meanwhile: in the master's own
process, one search could stop the whole cluster.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from master.logs.rows import LogRow
from windlass.base.errors import InvalidArgument, StoreUnavailable

DEADLINE_S = 5.0
"""For one page, which takes milliseconds."""
WORKERS = 2
"""Processes shared by all searches; started when first needed, replaced when stuck."""
_SCRIPT = Path(__file__).with_name("regex_worker.py")


class RegexFilter:
    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._places = asyncio.Semaphore(WORKERS)
        self._idle: list[asyncio.subprocess.Process] = []

    def check(self, pattern: str) -> None:
        """Raise InvalidArgument if it is no regular expression."""
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidArgument(
                f'searchText: "{pattern}" is no regular expression: {error}'
            ) from None

    async def keep(self, pattern: str, rows: Sequence[LogRow]) -> Sequence[LogRow]:
        """The rows in which the pattern is found. Raises InvalidArgument if that takes too long."""
        async with self._places:
            worker = self._idle.pop() if self._idle else await _start()
            try:
                async with asyncio.timeout(self._deadline_s):
                    kept = await _ask(worker, [pattern, *(row.log for row in rows)])
            except BaseException as error:
                await _stop(worker)
                if isinstance(error, TimeoutError):
                    raise InvalidArgument(
                        f'searchText: "{pattern}" takes too long: write a simpler expression'
                    ) from None
                raise
            self._idle.append(worker)
        return [row for row, found in zip(rows, kept, strict=True) if found]

    async def close(self) -> None:
        while self._idle:
            await _stop(self._idle.pop())


async def _start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(_SCRIPT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _ask(worker: asyncio.subprocess.Process, request: list[str]) -> list[int]:
    assert worker.stdin is not None  # noqa: S101
    assert worker.stdout is not None  # noqa: S101
    with suppress(ConnectionError):
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        await worker.stdin.drain()
    answer = await worker.stdout.readline()
    if not answer:
        raise StoreUnavailable("the process that matches log lines ended: try again")
    kept: list[int] = json.loads(answer)
    return kept


async def _stop(worker: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        worker.kill()
    with suppress(ConnectionError):
        await worker.communicate()
