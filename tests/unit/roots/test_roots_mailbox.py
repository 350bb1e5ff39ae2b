"""What waits for a root is handled in batches, in order, and each caller gets its own answer."""

from __future__ import annotations

import asyncio

import pytest
import structlog.testing

from master.roots.mailbox import BATCH_MESSAGES, Mailbox, MailboxMessage


class Doubler:
    """Answers each number with twice itself; holds the first batch until told to go on."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.mailbox: Mailbox[int, int] = Mailbox(self.handle, name="doubler")

    async def handle(self, batch: list[MailboxMessage[int, int]]) -> None:
        self.batches.append([message.content for message in batch])
        self.begun.set()
        await self.go_on.wait()
        for message in batch:
            message.answer(2 * message.content)


async def test_all_that_waits_is_one_batch_in_order_of_arrival() -> None:
    doubler = Doubler()
    first = asyncio.create_task(doubler.mailbox.ask(0))
    await doubler.begun.wait()
    others = [asyncio.create_task(doubler.mailbox.ask(n)) for n in range(1, 5)]
    await asyncio.sleep(0)
    doubler.go_on.set()
    assert await asyncio.gather(first, *others) == [0, 2, 4, 6, 8]
    assert doubler.batches == [[0], [1, 2, 3, 4]]


async def test_a_batch_is_bounded() -> None:
    doubler = Doubler()
    doubler.go_on.set()
    await asyncio.gather(*(doubler.mailbox.ask(n) for n in range(2 * BATCH_MESSAGES + 1)))
    assert [len(batch) for batch in doubler.batches] == [BATCH_MESSAGES, BATCH_MESSAGES, 1]


async def test_a_caller_cancelled_before_its_batch_takes_its_message_away() -> None:
    doubler = Doubler()
    first = asyncio.create_task(doubler.mailbox.ask(0))
    await doubler.begun.wait()
    leaving, staying = (asyncio.create_task(doubler.mailbox.ask(n)) for n in (1, 2))
    await asyncio.sleep(0)
    leaving.cancel()
    doubler.go_on.set()
    await asyncio.gather(first, leaving, staying, return_exceptions=True)
    assert doubler.batches == [[0], [2]]
    assert leaving.cancelled()


async def test_a_caller_cancelled_later_only_misses_its_answer() -> None:
    doubler = Doubler()
    leaving = asyncio.create_task(doubler.mailbox.ask(0))
    await doubler.begun.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    doubler.go_on.set()
    await doubler.mailbox.drain()
    assert await doubler.mailbox.ask(1) == 2
    assert doubler.batches == [[0], [1]]


async def test_a_handler_that_fails_refuses_whoever_has_no_answer_yet() -> None:
    async def handle(batch: list[MailboxMessage[int, int]]) -> None:
        batch[0].answer(7)
        raise ValueError("no")

    mailbox: Mailbox[int, int] = Mailbox(handle, name="m")
    answers = await asyncio.gather(mailbox.ask(0), mailbox.ask(1), return_exceptions=True)
    assert answers[0] == 7
    assert isinstance(answers[1], ValueError)
    assert await mailbox.ask(2) == 7, "the next batch is handled"


async def test_a_failure_that_nobody_waits_for_is_logged() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(batch: list[MailboxMessage[int, int]]) -> None:
        begun.set()
        await go_on.wait()
        batch[0].refuse(ValueError("lost"))

    mailbox: Mailbox[int, int] = Mailbox(handle, name="m")
    caller = asyncio.create_task(mailbox.ask(0))
    await begun.wait()
    with structlog.testing.capture_logs() as logs:
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        go_on.set()
        await mailbox.drain()
    assert [str(entry["exc_info"]) for entry in logs] == ["lost"]


async def test_a_handler_that_waits_for_its_own_mailbox_is_told() -> None:
    async def handle(batch: list[MailboxMessage[int, int]]) -> None:
        await mailbox.ask(1)

    mailbox: Mailbox[int, int] = Mailbox(handle, name="experiment 1")
    with pytest.raises(RuntimeError, match="experiment 1"):
        await mailbox.ask(0)
