"""What agents and the fleet need remembered comes back as it was saved."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from master.store.repositories.agents import AgentsRepository
from master.store.repositories.fleet import FleetRepository
from master.store.store import Store
from provisioner.ports import FleetStore
from rm_backends.ports import AgentRecord, AgentStore, JoinUse, SlotService
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
