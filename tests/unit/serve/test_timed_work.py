"""Rare work: due at its time, and a failure of one job stops nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from apscheduler.triggers.date import DateTrigger

from master.wiring.timed_work import TimedWork


async def test_a_job_that_fails_leaves_the_others() -> None:
    done = asyncio.Event()

    async def fails() -> None:
        raise OSError("disk full")

    async def works() -> None:
        done.set()

    work = TimedWork()
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    work.add("fails", fails, DateTrigger(long_ago))
    work.add("works", works, DateTrigger(long_ago))
    running = asyncio.create_task(work.run())
    await asyncio.wait_for(done.wait(), 30)
    assert not running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
