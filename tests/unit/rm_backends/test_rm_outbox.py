"""Events reach the master in order per allocation, and none is forgotten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from rm_backends.base import Lost, RmEvent
from rm_backends.outbox import Outbox
from tests.fakes.virtual_time import run
from windlass.base.errors import LeaseLost


def event(allocation_id: str, number: int) -> Lost:
    return Lost(allocation_id=allocation_id, reason=str(number))


class Handler:
    def __init__(self, act: Callable[[RmEvent], Awaitable[None]]) -> None:
        self._act = act
        self.handled: list[RmEvent] = []

    async def handle(self, event: RmEvent) -> None:
        await self._act(event)
        self.handled.append(event)


def play(handler: Handler, script: Callable[[Outbox], Awaitable[None]]) -> None:
    async def main() -> None:
        outbox = Outbox(handler)
        running = asyncio.create_task(outbox.run())
        await script(outbox)
        await asyncio.sleep(600)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(main(), limit_s=3600)


@pytest.mark.parametrize("seed", range(5))
def test_order_holds_per_allocation_whatever_fails(seed: int) -> None:
    rng = random.Random(seed)

    async def act(event: RmEvent) -> None:
        await asyncio.sleep(rng.random())
        if rng.random() < 0.3:
            raise OSError("cannot commit")

    handler = Handler(act)
    delivered: list[tuple[str, int]] = []
    names = ["a", "b", "c"]

    async def script(outbox: Outbox) -> None:
        for number in range(20):
            for name in names:
                outbox.post(event(name, number), lambda n=name, k=number: delivered.append((n, k)))  # type: ignore[misc]
            await asyncio.sleep(rng.random())

    play(handler, script)
    for name in names:
        assert [k for n, k in delivered if n == name] == list(range(20))
        assert [e for e in handler.handled if e.allocation_id == name] == [
            event(name, k) for k in range(20)
        ]


def test_one_allocation_that_fails_does_not_hold_up_another() -> None:
    async def act(event: RmEvent) -> None:
        if event.allocation_id == "bad":
            raise OSError("never")

    handler = Handler(act)

    async def script(outbox: Outbox) -> None:
        outbox.post(event("bad", 0))
        outbox.post(event("good", 0))

    play(handler, script)
    assert handler.handled == [event("good", 0)]


def test_events_posted_before_it_runs_are_delivered() -> None:
    async def act(event: RmEvent) -> None:
        pass

    handler = Handler(act)

    async def main() -> None:
        outbox = Outbox(handler)
        outbox.post(event("a", 0))
        running = asyncio.create_task(outbox.run())
        await asyncio.sleep(1)
        running.cancel()

    run(main())
    assert handler.handled == [event("a", 0)]


def test_discarded_events_are_not_delivered_and_later_ones_are() -> None:
    may_pass = asyncio.Event()

    async def act(event: RmEvent) -> None:
        await may_pass.wait()

    handler = Handler(act)
    confirmed: list[int] = []

    async def script(outbox: Outbox) -> None:
        for number in range(3):
            outbox.post(event("a", number), lambda k=number: confirmed.append(k))  # type: ignore[misc]
        await asyncio.sleep(1)
        outbox.discard("a")
        outbox.post(event("a", 3), lambda: confirmed.append(3))
        may_pass.set()

    play(handler, script)
    # The first was being handled already; its confirmation is of no interest any more.
    assert handler.handled == [event("a", 0), event("a", 3)]
    assert confirmed == [3]


def test_a_lost_lease_ends_it() -> None:
    async def act(event: RmEvent) -> None:
        raise LeaseLost("another master leads")

    async def main() -> None:
        outbox = Outbox(Handler(act))
        outbox.post(event("a", 0))
        await outbox.run()

    with pytest.raises(ExceptionGroup) as caught:
        run(main())
    assert caught.group_contains(LeaseLost)
