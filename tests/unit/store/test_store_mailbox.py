"""Handlers of one root run alone, in order, and to their end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from master.store.mailbox import SerialQueue


async def test_handlers_run_one_at_a_time_in_order_of_arrival() -> None:
    mailbox, log = SerialQueue(), list[str]()

    async def handler(n: int) -> int:
        log.append(f"begin {n}")
        await asyncio.sleep(0)
        log.append(f"end {n}")
        return n

    results = await asyncio.gather(
        *(mailbox.run(lambda n=n: handler(n)) for n in range(5))  # type: ignore[misc]
    )
    assert results == [0, 1, 2, 3, 4]
    assert log == [f"{what} {n}" for n in range(5) for what in ("begin", "end")]
    assert mailbox.pending == 0


async def test_an_error_reaches_the_caller_and_the_next_handler_runs() -> None:
    mailbox = SerialQueue()

    async def fail() -> None:
        raise ValueError("no")

    async def answer() -> int:
        return 42

    with pytest.raises(ValueError, match="no"):
        await mailbox.run(fail)
    assert await mailbox.run(answer) == 42


async def test_a_cancelled_caller_leaves_a_handler_that_has_begun() -> None:
    mailbox, begun, go_on, ended = SerialQueue(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler() -> None:
        begun.set()
        await go_on.wait()
        ended.set()

    caller = asyncio.create_task(mailbox.run(handler))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    second = asyncio.create_task(mailbox.run(lambda: asyncio.sleep(0, result=ended.is_set())))
    assert mailbox.pending >= 1
    go_on.set()
    assert await second is True, "the next handler waits for the one nobody waits for"


async def test_a_caller_cancelled_in_the_queue_takes_its_handler_away() -> None:
    mailbox, begun, go_on, ran = SerialQueue(), asyncio.Event(), asyncio.Event(), list[str]()

    async def first() -> None:
        begun.set()
        await go_on.wait()
        ran.append("first")

    async def second() -> None:
        ran.append("second")

    running = asyncio.create_task(mailbox.run(first))
    waiting = asyncio.create_task(mailbox.run(second))
    await begun.wait()
    waiting.cancel()
    go_on.set()
    await asyncio.gather(running, waiting, return_exceptions=True)
    await mailbox.drain()
    assert ran == ["first"]
    assert mailbox.pending == 0


async def test_a_handler_that_waits_for_its_own_mailbox_is_told() -> None:
    mailbox = SerialQueue("experiment 1")

    async def handler() -> None:
        await mailbox.run(handler)

    with pytest.raises(RuntimeError, match="experiment 1"):
        await mailbox.run(handler)


async def test_a_failure_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    mailbox, begun = SerialQueue("m"), asyncio.Event()

    async def handler() -> None:
        begun.set()
        await asyncio.sleep(0)
        raise ValueError("lost")

    caller = asyncio.create_task(mailbox.run(handler))
    await begun.wait()
    caller.cancel()
    with caplog.at_level(logging.ERROR):
        await asyncio.gather(caller, return_exceptions=True)
        await mailbox.drain()
    assert "lost" in caplog.text
