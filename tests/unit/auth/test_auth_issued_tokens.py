"""Join tokens of administrators: kept as hashes, over restarts, until they are spent, expired or revoked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from master.auth.issued_tokens import KEPT, IssuedTokens, TokenState, Wanted
from master.auth.join_tokens import JoinTokenSigner
from master.store import tables
from master.store.repositories.agents import AgentsRepository
from master.store.store import Store
from rm_backends.ports import AgentRecord, JoinGrant, JoinUse
from tests.fakes.actors import ADMIN
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument, NotFound
from windlass.base.ids import Ids

POOLS = ("default", "gpu")
SIGNER = JoinTokenSigner(bytes(range(32)))


def book(store: Store, clock: ManualClock, seed: int = 1) -> IssuedTokens:
    return IssuedTokens(store, clock, Ids.seeded(seed), others=SIGNER, pools=POOLS)


async def use(store: Store, clock: ManualClock, grant: JoinGrant, agent_id: str) -> None:
    record = AgentRecord(agent_id=agent_id, pool=grant.pool, slots=1, first_seen=clock.now())
    spent = JoinUse(
        token_id=grant.id,
        agent_id=agent_id,
        credential_hash="h",
        expires=grant.expires,
        at=clock.now(),
    )
    await AgentsRepository(store).save(record, spent)


async def test_what_is_stored_does_not_open_anything(
    memory_store: Store, clock: ManualClock
) -> None:
    tokens = book(memory_store, clock)
    text, made = await tokens.create(Wanted(pool="gpu", description="rack 7"), by=ADMIN)
    (row,) = await memory_store.read(select(tables.JoinToken))
    secret = text.rpartition("_")[2]
    assert len(secret) == 64
    assert secret not in row.model_dump_json()
    assert secret not in repr(made)
    (view,) = await tokens.views()
    assert view.token.masked == f"wjt_{made.id}_********"
    assert tokens.find(POOLS, view.token.masked) is None
    assert tokens.find(POOLS, row.token_hash) is None


async def test_a_token_allows_what_it_was_made_for_also_after_a_restart(
    memory_store: Store, clock: ManualClock
) -> None:
    wanted = Wanted(pool="gpu", valid=timedelta(hours=1), agents=3)
    text, made = await book(memory_store, clock).create(wanted, by=ADMIN)
    again = book(memory_store, clock, seed=2)
    assert again.find(POOLS, text) is None, "nothing is loaded yet"
    await again.load()
    grant = again.find(POOLS, text)
    assert grant == JoinGrant(
        pool="gpu", id=made.id, agents=3, expires=clock.now() + timedelta(hours=1)
    )
    assert again.find(("default",), text) is None
    for wrong in (text[:-1], text + "0", text[:-64] + "0" * 64, f"wjt_{made.id}", "wjt", "wjt__"):
        assert again.find(POOLS, wrong) is None, wrong
    assert again.find(POOLS, SIGNER.token("gpu")) == JoinGrant(pool="gpu")


async def test_a_token_for_named_agents_is_for_each_of_them_once(
    memory_store: Store, clock: ManualClock
) -> None:
    wanted = Wanted(pool="gpu", agents=9, names=frozenset({"a", "b"}))
    text, _ = await book(memory_store, clock).create(wanted, by=ADMIN)
    again = book(memory_store, clock)
    await again.load()
    grant = again.find(POOLS, text)
    assert grant is not None
    assert (grant.names, grant.agents) == ({"a", "b"}, 2)


async def test_the_list_says_who_joined_and_what_is_over(
    memory_store: Store, clock: ManualClock
) -> None:
    tokens = book(memory_store, clock)
    made = {}
    for name, wanted in {
        "one": Wanted(pool="gpu", valid=timedelta(hours=1)),
        "many": Wanted(pool="gpu", agents=None),
        "short": Wanted(pool="gpu", valid=timedelta(seconds=5)),
        "bad": Wanted(pool="gpu"),
    }.items():
        clock.advance(1)
        text, token = await tokens.create(wanted, by=ADMIN)
        grant = tokens.find(POOLS, text)
        assert grant is not None
        made[token.id] = (name, grant)
    ids = {name: id_ for id_, (name, _) in made.items()}
    await use(memory_store, clock, made[ids["one"]][1], "a1")
    await use(memory_store, clock, made[ids["many"]][1], "a2")
    clock.advance(10)
    await use(memory_store, clock, made[ids["many"]][1], "a3")
    await tokens.revoke(ids["bad"], by=ADMIN)
    views = await tokens.views()
    assert [made[view.token.id][0] for view in views] == ["bad", "short", "many", "one"]
    found = {made[v.token.id][0]: (v.state, v.joined, v.last_used) for v in views}
    assert found == {
        "one": (TokenState.SPENT, ("a1",), clock.now() - timedelta(seconds=10)),
        "many": (TokenState.USABLE, ("a2", "a3"), clock.now()),
        "short": (TokenState.EXPIRED, (), None),
        "bad": (TokenState.REVOKED, (), None),
    }


async def test_a_revoked_token_stays_revoked(memory_store: Store, clock: ManualClock) -> None:
    tokens = book(memory_store, clock)
    text, made = await tokens.create(Wanted(pool="gpu"), by=ADMIN)
    first = await tokens.revoke(made.id, by=ADMIN)
    clock.advance(5)
    assert await tokens.revoke(made.id, by=ADMIN) == first
    again = book(memory_store, clock)
    await again.load()
    for each in (tokens, again):
        grant = each.find(POOLS, text)
        assert grant is not None
        assert grant.revoked == first.revoked
    with pytest.raises(NotFound, match="nope"):
        await tokens.revoke("nope", by=ADMIN)


async def test_what_is_long_over_goes_with_its_uses(
    memory_store: Store, clock: ManualClock
) -> None:
    tokens = book(memory_store, clock)
    text, _ = await tokens.create(Wanted(pool="gpu", valid=timedelta(hours=1)), by=ADMIN)
    _, kept = await tokens.create(Wanted(pool="gpu", agents=None), by=ADMIN)
    grant = tokens.find(POOLS, text)
    assert grant is not None
    await use(memory_store, clock, grant, "a1")
    repository = AgentsRepository(memory_store)
    clock.advance(timedelta(hours=2).total_seconds())
    await tokens.remove_old()
    await repository.forget_uses(clock.now())
    assert [v.joined for v in await tokens.views() if v.token.id == grant.id] == [("a1",)]
    clock.advance(KEPT.total_seconds())
    await tokens.remove_old()
    assert [view.token.id for view in await tokens.views()] == [kept.id]
    assert await repository.uses(grant.id) == {}
    assert tokens.find(POOLS, text) is None


async def test_what_was_spent_long_ago_goes_though_it_never_expires(
    memory_store: Store, clock: ManualClock
) -> None:
    tokens = book(memory_store, clock)
    spent, made = await tokens.create(Wanted(pool="gpu", agents=1), by=ADMIN)
    _, unspent = await tokens.create(Wanted(pool="gpu", agents=2), by=ADMIN)
    clock.advance(KEPT.total_seconds())
    grant = tokens.find(POOLS, spent)
    assert grant is not None
    await use(memory_store, clock, grant, "a1")
    clock.advance(60)
    await tokens.remove_old()
    assert {view.token.id for view in await tokens.views()} == {made.id, unspent.id}
    clock.advance(KEPT.total_seconds())
    await tokens.remove_old()
    assert [view.token.id for view in await tokens.views()] == [unspent.id]
    assert tokens.find(POOLS, spent) is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(pool="cpu"), "the pools are: default, gpu"),
        (Wanted(pool="gpu", valid=timedelta(0)), "valid:"),
        (Wanted(pool="gpu", valid=timedelta(days=400)), "up to 366 days"),
        (Wanted(pool="gpu", agents=0), "uses:"),
        (Wanted(pool="gpu", description="x" * 501), "description:"),
    ],
)
async def test_a_token_that_cannot_be_meant_is_refused(
    memory_store: Store, clock: ManualClock, wanted: Wanted, said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        await book(memory_store, clock).create(wanted, by=ADMIN)
    assert await memory_store.read(select(tables.JoinToken)) == []
