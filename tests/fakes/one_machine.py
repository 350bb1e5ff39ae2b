"""A machine of an elastic pool in a world's store, with a life whose costs are known."""

from __future__ import annotations

from typing import Any

from master.store.repositories.fleet import FleetRepository
from provisioner.fleet.instances import InstanceRecord, InstanceState, instance_document
from tests.fakes.api_world import ApiWorld
from tests.fakes.fleet_world import an_offer


async def a_machine(
    world: ApiWorld, name: str, *, usd_per_hour: float = 8.0, **more: Any
) -> InstanceRecord:
    """Of the pool default: asked for two hours ago, ready one hour ago."""
    now = world.clock.now().timestamp()
    values = {"created_at": now - 7200, "ready_at": now - 3600, "state": InstanceState.READY}
    record = InstanceRecord(
        id=name,
        pool="default",
        offer=an_offer(4, usd_per_hour),
        intent_id="i",
        generation=1,
        **{**values, **more},
    )
    fleet = FleetRepository(world.services.store, world.services.costs.note)
    await fleet.save(instances=[(name, record.pool, record.told, instance_document(record))])
    return record
