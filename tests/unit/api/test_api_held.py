"""What is held for somebody ends with its result, with its client, or with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from starlette.requests import Request

from master.api.errors import Stopping
from master.api.http.held import ServerStop, hold


class Poll:
    """One held request, and all that can end it."""

    def __init__(self) -> None:
        self.closing = ServerStop()
        self.signal = asyncio.Event()
        self.client_left = asyncio.Event()
        self.ended = ""
        self.begun = asyncio.Event()

    async def receive(self) -> dict[str, object]:
        await self.client_left.wait()
        return {"type": "http.disconnect"}

    async def work(self) -> str:
        self.begun.set()
        try:
            await self.signal.wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        self.ended = "done"
        return "the answer"

    async def held(self) -> str:
        request = Request({"type": "http"}, self.receive)  # type: ignore[arg-type]
        return await hold(request, self.closing, self.work())


async def test_the_result_of_the_work_is_answered() -> None:
    poll = Poll()
    held = asyncio.create_task(poll.held())
    await poll.begun.wait()
    poll.signal.set()
    assert await held == "the answer"


ENDS: list[Callable[[Poll], None]] = [
    lambda poll: poll.client_left.set(),
    lambda poll: poll.closing.set(),
]


@pytest.mark.parametrize("end", ENDS)
async def test_the_work_is_given_up_when_nobody_waits(end: Callable[[Poll], None]) -> None:
    poll = Poll()
    held = asyncio.create_task(poll.held())
    await poll.begun.wait()
    end(poll)
    with pytest.raises(Stopping):
        await held
    assert poll.ended == "cancelled"
    assert held.cancelling() == 0


async def test_a_server_that_stops_begins_no_work() -> None:
    poll = Poll()
    poll.closing.set()
    with pytest.raises(Stopping):
        await poll.held()
    assert not poll.begun.is_set()


async def test_a_cancelled_request_is_cancelled_and_not_said_to_stop() -> None:
    poll = Poll()
    held = asyncio.create_task(poll.held())
    await poll.begun.wait()
    poll.closing.set()
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held


async def test_a_failure_of_the_work_is_its_own() -> None:
    async def fail() -> None:
        raise ValueError("its own")

    poll = Poll()
    request = Request({"type": "http"}, poll.receive)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="its own"):
        await hold(request, poll.closing, fail())


async def test_one_task_watches_the_client_and_nothing_stays_behind() -> None:
    """Thousands are open at a time: each task of theirs counts."""
    poll = Poll()
    before = asyncio.all_tasks()
    held = asyncio.create_task(poll.held())
    await poll.begun.wait()
    (watcher,) = asyncio.all_tasks() - before - {held}
    poll.signal.set()
    await asyncio.wait([held, watcher])
    assert asyncio.all_tasks() == before
    assert poll.closing.listeners == set()
