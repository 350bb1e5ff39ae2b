"""Gangs, nodes and pools as the planner takes them, in few words."""

from __future__ import annotations

from collections import Counter
from typing import Any

from provisioner.capacity.memory import CapacityMemory
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.types import Gang, Node, Offer, PoolDemand, PoolSettings
from tests.fakes.fleet_world import a_gang, an_offer

NOW = 10_000.0
ONE, FOUR, EIGHT = an_offer(1, 1.0), an_offer(4, 4.0), an_offer(8, 8.0)


def gangs(*slots: int, **more: Any) -> tuple[Gang, ...]:
    return tuple(a_gang(f"g{i}", size, **more) for i, size in enumerate(slots))


def node(name: str, slots: int, free: int | None = None, **more: Any) -> Node:
    free = slots if free is None else free
    return Node(agent_id=name, pool="gpu", slots=slots, free_slots=free, busy=free < slots, **more)


def coming(name: str, offer: Offer, *claims: str, **more: Any) -> Machine:
    return Machine(
        name=name, offer=offer, phase=MachinePhase.COMING, ready_in_s=30.0, claims=claims, **more
    )


def pool(
    waiting: tuple[Gang, ...] = (),
    offers: tuple[Offer, ...] = (FOUR,),
    *,
    nodes: tuple[Node, ...] = (),
    machines: tuple[Machine, ...] = (),
    hold: str | None = None,
    name: str = "gpu",
    **limits: Any,
) -> PoolInput:
    keys = {"max_instances": 100} | limits
    return PoolInput(
        settings=PoolSettings(pool=name, **keys),
        offers=offers,
        demand=PoolDemand(pool=name, gangs=waiting, nodes=nodes),
        machines=machines,
        hold=hold,
    )


def plan_of(*pools: PoolInput, memory: CapacityMemory | None = None) -> Plan:
    return plan(PlanInput(now=NOW, pools=pools, memory=memory or CapacityMemory()))


def bought(decision: Plan) -> dict[int, int]:
    """Slots of a machine -> how many are bought."""
    counts: Counter[int] = Counter()
    for launch in decision.launches:
        counts[launch.offer.slots] += launch.count
    return dict(counts)
