"""The master's own lines: state never waits for them."""

from __future__ import annotations

import asyncio

import pytest

from master.logs import master_lines
from master.logs.master_lines import MasterLines
from master.logs.rows import LogQuery
from master.logs.store import LogStore
from tests.stores import running
from windlass.base.clock import ManualClock


async def test_lines_are_kept_in_order_while_the_log_store_stands_still(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master_lines, "MAX_WAITING", 3)
    logs = await LogStore.open("sqlite://", inline=True)
    lines = MasterLines(logs, clock)
    for number in range(5):
        lines.say("task", "task.1", f"line {number}")
    async with running(logs):
        writing = asyncio.create_task(lines.run())
        query = LogQuery(task_ids=("task",))
        async for page in logs.follow(query):
            assert [row.log for row in page] == ["line 0", "line 1", "line 2"]
            assert {row.source for row in page} == {"master"}
            break
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
