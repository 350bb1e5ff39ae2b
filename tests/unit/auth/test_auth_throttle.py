"""Whose password is checked next: guesses are slow, and nobody is locked out by the guesses of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

import pytest

from master.auth import throttle as rules
from master.auth.passwords import AT_ONCE
from master.auth.throttle import FREE_FAILURES, LoginThrottle, LoginThrottled, Source
from windlass.base.clock import ManualClock


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LOOK_AGAIN_S", 0.001)


class Door:
    """Attempts in the background; `checked` has those whose turn came, in that order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.throttle = LoginThrottle(self.clock)
        self.checked: list[Source] = []
        self.refused: list[Source] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    def knock(self, source: Source, *, right: bool = False) -> asyncio.Task[None]:
        task = asyncio.create_task(self._attempt(source, right))
        self.tasks.add(task)
        return task

    async def _attempt(self, source: Source, right: bool) -> None:
        try:
            async with self.throttle.turn(source) as turn:
                self.checked.append(source)
                await self.gate.wait()
                if right:
                    turn.passed()
        except LoginThrottled:
            self.refused.append(source)

    async def fail(self, sources: Iterable[Source]) -> None:
        await asyncio.gather(*(self.knock(source) for source in sources))

    async def settle(self) -> None:
        """Until nothing changes without time."""
        for _ in range(20):
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    door = Door()
    yield door
    await door.close()


MALLORY, ALICE = Source("alice", "203.0.113.9"), Source("alice", "10.0.0.1")


async def test_after_some_free_failures_an_address_has_one_guess_in_each_pause(door: Door) -> None:
    for n in range(FREE_FAILURES + 5):
        door.knock(Source(f"user{n}", MALLORY.address))
    await door.settle()
    assert len(door.checked) == FREE_FAILURES
    for further in range(1, 4):
        door.clock.advance(rules.ADDRESS_PAUSE_S)
        await door.settle()
        assert len(door.checked) == FREE_FAILURES + further
    assert not door.refused


async def test_many_addresses_share_the_ration_of_an_account(door: Door) -> None:
    for n in range(FREE_FAILURES + 5):
        door.knock(Source("alice", f"203.0.113.{n}"))
    await door.settle()
    assert len(door.checked) == FREE_FAILURES
    door.clock.advance(rules.ACCOUNT_PAUSE_S)
    await door.settle()
    assert len(door.checked) == FREE_FAILURES + 1


async def test_right_passwords_cost_nothing(door: Door) -> None:
    for _ in range(10 * FREE_FAILURES):
        await door.knock(ALICE, right=True)
    assert len(door.checked) == 10 * FREE_FAILURES


async def test_an_address_the_account_has_come_from_passes_a_flood_from_others(door: Door) -> None:
    await door.knock(ALICE, right=True)
    for n in range(5 * FREE_FAILURES):
        door.knock(Source("alice", f"203.0.113.{n}"))
    await door.settle()
    await asyncio.wait_for(door.knock(ALICE, right=True), 60)
    assert door.checked[-1] == ALICE


async def test_a_new_address_goes_before_those_that_have_failed(door: Door) -> None:
    others = [Source("alice", f"203.0.113.{n}") for n in range(FREE_FAILURES)]
    await door.fail(others)
    for other in others * 3:
        door.knock(other)
    await door.settle()
    door.knock(ALICE)
    await door.settle()
    assert ALICE not in door.checked, "the account has no ration left"
    door.clock.advance(rules.ACCOUNT_PAUSE_S)
    await door.settle()
    assert door.checked[-1] == ALICE


async def test_another_account_passes_a_flood_from_its_own_address(door: Door) -> None:
    """Behind one proxy or relay."""
    bob = Source("bob", MALLORY.address)
    await door.fail([MALLORY] * FREE_FAILURES)
    for _ in range(50):
        door.knock(MALLORY)
    door.knock(bob)
    await door.settle()
    door.clock.advance(rules.ADDRESS_PAUSE_S)
    await door.settle()
    assert door.checked[-1] == bob


async def test_a_few_are_checked_at_a_time_and_few_wait(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "MAX_WAITING", 20)
    await door.fail([MALLORY] * 3)
    door.gate.clear()
    before = len(door.checked)
    for n in range(AT_ONCE):
        door.knock(Source(f"busy{n}", "192.0.2.1"))
    for _ in range(100):
        door.knock(MALLORY)
    door.knock(ALICE)
    await door.settle()
    assert len(door.checked) - before == AT_ONCE
    assert set(door.refused) == {MALLORY}, "who has failed most gives way"
    assert len(door.refused) == 100 + 1 - 20
    door.gate.set()
    await door.settle()
    assert door.checked[before + AT_ONCE] == ALICE


async def test_one_who_goes_away_leaves_no_place_taken(door: Door) -> None:
    door.gate.clear()
    gone = [door.knock(Source(f"u{n}", f"192.0.2.{n}")) for n in range(2 * AT_ONCE)]
    await door.settle()
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    door.gate.set()
    await asyncio.wait_for(door.knock(ALICE, right=True), 60)


async def test_who_waits_too_long_is_told(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LONGEST_WAIT_S", 0.01)
    await door.fail([MALLORY] * FREE_FAILURES)
    with pytest.raises(LoginThrottled, match="try again in a few seconds"):
        async with door.throttle.turn(MALLORY):
            pass


async def test_time_forgives(door: Door) -> None:
    await door.fail([MALLORY] * FREE_FAILURES)
    door.clock.advance(rules.FORGET_S + 1)
    assert door.throttle._rank(MALLORY)[:2] == (0, 0)
    await asyncio.wait_for(door.fail([MALLORY] * FREE_FAILURES), 60)


def test_neighbours_in_ipv6_are_one_address() -> None:
    assert Source.of("a", "2001:db8::1") == Source.of("a", "2001:db8::ffff:1")
    assert Source.of("a", "2001:db8::1") != Source.of("a", "2001:db8:0:1::1")
    assert Source.of("a", "::ffff:10.0.0.1") == Source.of("a", "10.0.0.1")
    assert Source.of("a", "somewhere").address == "somewhere"


async def test_memory_is_bounded(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_RECORDS", 10)
    for n in range(100):
        await door.fail([Source(f"u{n}", f"192.0.2.{n}")])
    for table in (door.throttle._accounts, door.throttle._addresses, door.throttle._histories):
        assert len(table._entries) == 10
