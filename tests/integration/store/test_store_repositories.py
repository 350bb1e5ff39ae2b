"""What agents and the fleet need remembered comes back as it was saved."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from master.core.visibility import EVERYTHING, Visibility
from master.store.repositories.agents import AgentsRepository
from master.store.repositories.decisions import KEPT_S, DecisionFilter, DecisionQueries
from master.store.repositories.fleet import FleetRepository
from master.store.store import Store
from provisioner.journal.records import DecisionKind, decision_document
from provisioner.ports import FleetStore, WrittenDecision
from rm_backends.ports import AgentRecord, AgentStore, JoinUse, SlotService
from tests.fakes.decisions import a_decision, write
from windlass.base.errors import WindlassError


async def test_agents_are_saved_replaced_and_removed(store: Store) -> None:
    agents: AgentStore = AgentsRepository(store)
    assert list(await agents.load()) == []
    seen = datetime(2026, 1, 1, tzinfo=UTC)
    first = AgentRecord(agent_id="a", pool="gpu", slots=8, first_seen=seen)
    second = AgentRecord(
        agent_id="b", pool="gpu", slots=0, first_seen=seen, draining=True, instance_id="i-1"
    )
    out = {0: SlotService.DISABLED, 3: SlotService.DRAINING}
    changed = replace(first, enabled=False, slots=4, slot_service=out)
    for record in (second, first, changed):
        await agents.save(record)
    assert list(await agents.load()) == [changed, second]
    await agents.remove("a")
    await agents.remove("a")
    assert list(await agents.load()) == [second]


async def test_the_fleet_loads_what_is_not_finished(store: Store) -> None:
    fleet: FleetStore = FleetRepository(store)
    loaded = await fleet.load()
    assert (list(loaded.intents), list(loaded.instances), loaded.memory) == ([], [], None)
    assert list(loaded.lessons) == []
    await fleet.save(
        intents=[("n1", {"a": 1}), ("n2", {"finished": False})],
        instances=[("i1", "gpu", False, {"b": 2}), ("i2", "gpu", False, {})],
        memory={"ended_lost": []},
        lessons={"a": {"scope": 1}, "b": {"scope": 2}},
    )
    await fleet.save(
        intents=[("n1", {"finished": True})],
        instances=[("i2", "gpu", True, {"x": 1})],
        lessons={"a": None, "b": {"scope": 3}, "never there": None},
    )
    loaded = await fleet.load()
    assert list(loaded.intents) == [("n2", {"finished": False})]
    assert list(loaded.instances) == [("i1", {"b": 2})]
    assert loaded.memory == {"ended_lost": []}
    assert list(loaded.lessons) == [{"scope": 3}]


async def test_a_save_is_all_or_nothing(store: Store) -> None:
    fleet = FleetRepository(store)
    with pytest.raises(WindlassError):
        await fleet.save(intents=[("n", {})], lessons={"a": {}}, memory={"not json": object()})
    loaded = await fleet.load()
    assert (list(loaded.intents), list(loaded.lessons)) == ([], [])


async def test_a_spent_join_token_is_kept_until_it_has_expired(store: Store) -> None:
    repository = AgentsRepository(store)
    now = datetime(2026, 8, 1, tzinfo=UTC)
    record = AgentRecord(
        agent_id="m-0", pool="gpu", slots=1, first_seen=now, credential_hash="of m-0"
    )
    use = JoinUse(
        token_id="launch-1", agent_id="m-0", credential_hash="of m-0", expires=now, at=now
    )
    await repository.save(record, use)
    await repository.save(record)
    await repository.remove("m-0")
    assert await repository.uses("launch-1") == {"m-0": "of m-0"}
    assert await repository.uses("launch-2") == {}
    await repository.forget_uses(now)
    assert await repository.uses("launch-1") == {"m-0": "of m-0"}
    await repository.forget_uses(now + timedelta(seconds=1))
    assert await repository.uses("launch-1") == {}


async def test_the_journal_is_paged_found_by_subject_and_deleted_when_it_is_old(
    store: Store,
) -> None:
    queries = DecisionQueries(store)
    stands = a_decision("a", at=10.0, jobs=("j",), is_open=True)
    ended = a_decision("b", at=20.0, kind=DecisionKind.ENDED, pool="spare", instances=("m",))
    await write(store, stands, ended)

    async def found(**wanted: object) -> list[str]:
        paged = await queries.page(DecisionFilter(**wanted), offset=0, limit=10)  # type: ignore[arg-type]
        return [each.id for each in paged.rows]

    assert await found() == ["b", "a"]
    assert (await queries.page(DecisionFilter(), offset=1, limit=1)).rows == [stands]
    assert await found(pool="spare", kind=DecisionKind.ENDED) == ["b"]
    assert (await found(machine="m"), await found(job="j"), await found(job="m")) == (
        ["b"],
        ["a"],
        [],
    )
    assert (await found(since=20.0), await found(until=20.0)) == (["b"], ["a"])
    assert await found(hidden={"spare"}) == ["a"]
    assert [each["id"] for each in (await FleetRepository(store).load()).decisions] == ["a"]
    again = replace(stands, last_at=30.0, jobs=("j", "k"), is_open=False)
    await FleetRepository(store).save(
        decisions=[WrittenDecision(document=decision_document(again), subjects=("job k",))]
    )
    assert (await found(), await found(job="j")) == (["a", "b"], ["a"])
    assert await found(job="k") == ["a"]
    assert await queries.visible_jobs(["j"], EVERYTHING) == {"j"}
    nothing = Visibility(workspaces=frozenset())
    assert await queries.visible_jobs(["j"], nothing) == frozenset()
    await queries.remove_old(KEPT_S + 25.0)
    assert (await found(), await found(machine="m")) == (["a"], [])
    await queries.remove_old(KEPT_S + 35.0)
    assert await found() == []
