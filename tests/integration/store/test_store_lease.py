"""Two masters on one database: who leads, until when, and when another one may."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from master.leading import lead
from master.store.lease import LEASE, LeaderCandidate
from master.store.store import Store
from master.store.tables import Leader
from tests.stores import running
from windlass.base.clock import ManualClock
from windlass.base.errors import LeaseHeld, LeaseLost

FIRST = LeaderCandidate(master_id="1", holder="process 7 on node-1", place="boot-1:folder-1")
SECOND = LeaderCandidate(master_id="2", holder="process 8 on node-2", place="boot-2:folder-1")


@pytest.fixture
async def leader(db_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    store = await Store.open(db_url, clock=clock)
    await store.take_lease(FIRST)
    async with running(store):
        yield store


@pytest.fixture
async def other(leader: Store, db_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    async with running(await Store.open(db_url, clock=clock)) as store:
        yield store


async def expiry(store: Store) -> datetime:
    found = await store.read_one(select(Leader))
    assert found is not None
    assert found.expires_at is not None
    return found.expires_at


async def expire_in(store: Store, left: timedelta) -> None:
    now = await expiry(store) - LEASE
    await store._database.write(lambda c: c.execute(update(Leader).values(expires_at=now + left)))


async def test_a_lease_is_not_taken_from_a_master_that_may_live(
    leader: Store, other: Store
) -> None:
    with pytest.raises(LeaseHeld, match=r"process 7 on node-1, until 20.* Stop it first") as held:
        await other.take_lease(SECOND)
    assert 0 < held.value.wait_s <= LEASE.total_seconds()
    await leader.check_lease()


async def test_an_expired_lease_is_taken_at_once(leader: Store, other: Store) -> None:
    await expire_in(leader, timedelta(seconds=-1))
    assert await other.take_lease(SECOND) == 2
    with pytest.raises(LeaseLost, match="now master 2 leads"):
        await leader.renew_lease()


async def test_a_lease_that_was_given_back_is_taken_at_once(leader: Store, other: Store) -> None:
    await leader.give_back_lease()
    assert await other.take_lease(SECOND) == 2


async def test_who_has_locked_the_folder_of_the_leader_need_not_wait(
    leader: Store, other: Store
) -> None:
    """That master was killed: the kernel would not have given its lock to another process."""
    assert await other.take_lease(replace(SECOND, place=FIRST.place)) == 2


async def test_a_lease_of_a_release_that_did_not_renew_it_is_taken(
    leader: Store, other: Store
) -> None:
    await leader._database.write(lambda c: c.execute(update(Leader).values(expires_at=None)))
    assert await other.take_lease(SECOND) == 2


async def test_renewing_moves_the_expiry(leader: Store, clock: ManualClock) -> None:
    await expire_in(leader, timedelta(seconds=1))
    before = await expiry(leader)
    await leader.renew_lease()
    assert await expiry(leader) > before + timedelta(seconds=10)


async def test_one_who_has_waited_takes_what_was_not_renewed(leader: Store, other: Store) -> None:
    """Also where the clock was set back, and the expiry is far away."""
    with pytest.raises(LeaseHeld) as held:
        await other.take_lease(SECOND)
    assert await other.take_lease(replace(SECOND, unrenewed=held.value.expires_at)) == 2


async def test_one_who_has_waited_does_not_take_what_was_renewed(
    leader: Store, other: Store, clock: ManualClock
) -> None:
    with pytest.raises(LeaseHeld) as held:
        await other.take_lease(SECOND)
    clock.advance(1)
    await leader.renew_lease()
    with pytest.raises(LeaseHeld, match="and it lives: it has renewed its lease"):
        await other.take_lease(replace(SECOND, unrenewed=held.value.expires_at))


async def test_the_lease_of_a_dead_master_is_waited_for(
    leader: Store, other: Store, tmp_path: Path
) -> None:
    await expire_in(leader, timedelta(seconds=0.1))
    assert await lead(other, "2", tmp_path) == 2
    found = await other.read_one(select(Leader))
    assert found is not None
    assert str(tmp_path) in found.holder
