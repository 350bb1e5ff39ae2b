"""Searches of users: fair turns, and budgets of CPU time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from master.logs.search_turns import CpuBudget, Turns


@pytest.fixture
async def turns() -> AsyncIterator[Turns]:
    turns = Turns(1, "test")
    yield turns
    await turns.close()


def test_a_budget_comes_back_up_to_its_size() -> None:
    budget = CpuBudget(most_s=10.0, per_s=0.5, left_s=10.0, at_s=0.0)
    budget.spend(14.0, now_s=0.0)
    assert (budget.left(0.0), budget.wait_s(0.0)) == (-4.0, 8.0)
    assert (budget.left(8.0), budget.wait_s(8.0)) == (0.0, 0.0)
    assert budget.left(1_000.0) == 10.0
    budget.spend(1.0, now_s=1_000.0)
    assert budget.left(1_000.0) == 9.0


async def test_one_who_asks_for_much_keeps_nobody_waiting(turns: Turns) -> None:
    served: list[str] = []
    gate = threading.Event()

    async def ask(user: int, name: str, work: Callable[[], object] = lambda: None) -> None:
        await turns.run(user, work, lambda _: served.append(name))

    async with asyncio.TaskGroup() as group:
        group.create_task(ask(1, "first", lambda: gate.wait(60)))
        await asyncio.sleep(0)
        for name in ("a", "b", "c"):
            group.create_task(ask(1, name))
        await asyncio.sleep(0)
        group.create_task(ask(2, "other"))
        group.create_task(ask(3, "third"))
        await asyncio.sleep(0)
        gate.set()
    assert served == ["first", "other", "third", "a", "b", "c"]


async def test_of_one_user_one_thing_runs_at_a_time() -> None:
    turns = Turns(2, "test")
    gate, running, most = threading.Event(), set[int](), 0

    def work(number: int) -> None:
        nonlocal most
        running.add(number)
        most = max(most, len(running))
        gate.wait(60)
        running.discard(number)

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(turns.run(1, lambda n=number: work(n), lambda _: None))
        await asyncio.sleep(0)
        assert await turns.run(2, lambda: "served", lambda _: None) == "served"
        gate.set()
    await turns.close()
    assert most == 1


async def test_who_goes_away_pays_and_blocks_nobody(turns: Turns) -> None:
    gate, paid = threading.Event(), asyncio.Event()

    def work() -> int:
        gate.wait(60)
        return 1

    running = asyncio.create_task(turns.run(1, work, lambda _: paid.set()))
    waiting = asyncio.create_task(turns.run(2, work, lambda _: None))
    await asyncio.sleep(0)
    for task in (running, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    gate.set()
    assert await turns.run(3, lambda: "served", lambda _: None) == "served"
    assert paid.is_set()


async def test_work_that_fails_ends_its_turn(turns: Turns) -> None:
    with pytest.raises(ZeroDivisionError):
        await turns.run(1, lambda: 1 // 0, lambda _: None)
    assert await turns.run(1, lambda: 2, lambda _: None) == 2
