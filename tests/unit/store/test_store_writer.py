"""The writer's promises, against a database that does what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pytest
from sqlalchemy import Connection

from master.store.sql.writer import Lane, Writer
from windlass.base.errors import Conflict, LeaseLost, StoreUnavailable, WindlassError

T = TypeVar("T")


class ScriptedDatabase:
    """Applies to a list; each transaction waits for a permit, and rolls back when `work` fails."""

    dialect = "none"

    def __init__(self) -> None:
        self.committed: list[str] = []
        self.transactions: list[list[str]] = []
        self.permits = asyncio.Semaphore(0)
        self.begun = asyncio.Event()

    async def write(self, work: Callable[[Connection], T]) -> T:
        self.begun.set()
        await self.permits.acquire()
        pending: list[str] = []
        result = work(cast("Connection", pending))
        self.transactions.append(pending)
        self.committed += pending
        return result

    async def read(self, work: Callable[[Connection], T]) -> T:
        raise AssertionError("the writer does not read")

    async def close(self) -> None: ...


def apply(connection: Connection, items: Sequence[str]) -> Sequence[str]:
    done = cast("list[str]", connection)
    for item in items:
        if item.startswith("bad"):
            raise Conflict(f"{item} is bad")
        done.append(item)
    return [item.upper() for item in items]


def lane(*, batch_weight: int = 1000, max_waiting: int = 1000) -> Lane[str, str]:
    return Lane(apply, weigh=len, batch_weight=batch_weight, max_waiting=max_waiting)


class Setup:
    def __init__(self, *, max_waiting: int = 1000) -> None:
        self.database = ScriptedDatabase()
        self.units, self.bulk = lane(max_waiting=max_waiting), lane(batch_weight=4)
        self.error: WindlassError | None = None
        self.writer = Writer(self.database, (self.units, self.bulk), guard=self._guard)
        self.task = asyncio.create_task(self.writer.run())

    def _guard(self, _: Connection) -> None:
        if self.error is not None:
            raise self.error

    def submit(self, *items: str, bulk: bool = False) -> list[asyncio.Task[str]]:
        chosen = self.bulk if bulk else self.units
        return [asyncio.create_task(self.writer.submit(chosen, item)) for item in items]

    async def hold_first(self) -> list[asyncio.Task[str]]:
        """Put one transaction under way, so that what comes now queues up."""
        first = self.submit("first")
        await self.database.begun.wait()
        return first

    async def finish(self, *tasks: asyncio.Task[str]) -> list[str | BaseException]:
        for _ in range(100):
            self.database.permits.release()
        return await asyncio.gather(*tasks, return_exceptions=True)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_what_waits_is_committed_together() -> None:
    setup = Setup()
    first = await setup.hold_first()
    rest = setup.submit(*"abcdef")
    await asyncio.sleep(0)
    assert await setup.finish(*first, *rest) == ["FIRST", *"ABCDEF"]
    assert setup.database.transactions == [["first"], list("abcdef")]
    await setup.end()


async def test_one_bad_item_fails_alone() -> None:
    setup = Setup()
    first = await setup.hold_first()
    rest = setup.submit("a", "bad", "b")
    await asyncio.sleep(0)
    results = await setup.finish(*first, *rest)
    assert isinstance(results.pop(2), Conflict)
    assert results == ["FIRST", "A", "B"]
    assert setup.database.committed == ["first", "a", "b"]
    await setup.end()


async def test_bulk_waits_for_state_and_state_for_one_batch_of_bulk() -> None:
    setup = Setup()
    first = await setup.hold_first()
    bulk = setup.submit("1111", "2222", "3333", bulk=True)
    units = setup.submit("u", "v")
    await asyncio.sleep(0)
    setup.database.permits.release()
    await asyncio.gather(*first)
    await setup.finish(*units, *bulk)
    assert setup.database.transactions == [["first"], ["1111"], ["u", "v"], ["2222"], ["3333"]]
    await setup.end()


async def test_a_caller_cancelled_in_the_queue_changes_nothing() -> None:
    setup = Setup()
    first = await setup.hold_first()
    gone, stays = setup.submit("gone", "stays")
    await asyncio.sleep(0)
    gone.cancel()
    await setup.finish(*first, gone, stays)
    assert setup.database.committed == ["first", "stays"]
    await setup.end()


@pytest.mark.parametrize("error", [LeaseLost("other"), StoreUnavailable("disk")])
async def test_only_a_lost_lease_ends_the_writer(error: WindlassError) -> None:
    setup = Setup()
    first = await setup.hold_first()
    second = setup.submit("second")
    await asyncio.sleep(0)
    setup.error = error
    results = await setup.finish(*first, *second)
    assert [type(result) for result in results] == [type(error)] * 2
    assert setup.database.committed == []
    setup.error = None
    (later,) = await setup.finish(*setup.submit("later"))
    if isinstance(error, LeaseLost):
        assert isinstance(later, LeaseLost)
        with pytest.raises(LeaseLost):
            await setup.task
    else:
        assert later == "LATER"
        await setup.end()


async def test_cancelling_the_writer_answers_everybody() -> None:
    setup = Setup()
    first = await setup.hold_first()
    waiting = setup.submit("waiting")
    await asyncio.sleep(0)
    setup.task.cancel()
    await asyncio.sleep(0)
    results = await setup.finish(*first, *waiting)
    assert results[0] == "FIRST", "a transaction under way is finished and answered"
    assert isinstance(results[1], StoreUnavailable)
    await asyncio.gather(setup.task, return_exceptions=True)
    with pytest.raises(StoreUnavailable, match="closed"):
        await setup.writer.submit(setup.units, "later")


async def test_a_queue_that_grows_too_long_refuses() -> None:
    setup = Setup(max_waiting=10)
    first = await setup.hold_first()
    waiting = setup.submit("0123456789")
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="too slow"):
        await setup.writer.submit(setup.units, "x")
    assert await setup.finish(*first, *waiting) == ["FIRST", "0123456789"]
    assert await setup.finish(*setup.submit("x")) == ["X"]
    await setup.end()
