"""What a pool of agents could hold at best: to refuse what it never can, and to say why work waits. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from master.core.machines import MachineFacts, Requirements
from master.core.scheduler.types import Request
from master.core.scheduler.unfit_agents import machines_for
from provisioner.sections.pools import ResolvedPool
from provisioner.types import PoolCapacity
from rm_backends.agents.agents import Agent, Presence
from rm_backends.base import AllocationRequest
from rm_backends.limits import PoolShape, fits


def largest_shape(
    options: ResolvedPool,
    agents: Sequence[Agent],
    capacity: PoolCapacity | None,
    requires: Requirements,
    slots: int,
) -> PoolShape:
    """The most that the pool could ever be. Agents that are away count: they may come back.

    `requires`: counting only machines of which so many as hold `slots` are what is asked for. `capacity`: what its
    provisioner may launch; None: it has none.
    """

    def serves(size: int, facts: MachineFacts) -> bool:
        return requires.are_met_by(facts, machines_for(slots, size))

    if requires.is_picky:
        agents = [a for a in agents if serves(a.slot_count, a.facts)]
    if capacity is None:
        return _shape_of(options, agents)
    standing = _shape_of(options, [a for a in agents if a.record.instance_id is None])
    sizes = dict(standing.sizes)
    launched: Collection[int] = capacity.node_slots
    if requires.is_picky:
        launched = {size for size, facts in capacity.kinds if serves(size, facts)}
    for size in launched:
        if size > 0 and capacity.max_instances > 0:
            sizes[size] = sizes.get(size, 0) + capacity.max_instances
    return PoolShape(
        pool=options.name,
        sizes=sizes,
        max_agents=standing.max_agents + capacity.max_instances,
        takes_aux=standing.takes_aux,
        launches=True,
        heterogeneous=options.scheduler.allow_heterogeneous_fits,
    )


def open_shape(
    options: ResolvedPool, agents: Iterable[Agent], request: AllocationRequest | None = None
) -> PoolShape:
    """Of the agents that are here and take work: all of them, or those that may take this request."""
    here = (a for a in agents if a.is_open and a.presence is not Presence.AWAY)
    able = [a for a in here if request is None or _may_take(a, request)]
    return _shape_of(options, able, as_in_service=True)


def fits_open_agents(
    options: ResolvedPool,
    agents: Iterable[Agent],
    known: PoolShape | None,
    request: AllocationRequest,
) -> bool:
    """Whether the agents that take work could hold it if they were free. `known`: the shape of all of them."""
    shape = known
    if request.blocked_agents or request.requires.is_picky:
        shape = open_shape(options, agents, request)
    if shape is None or shape.max_agents == 0 or not (request.slots or shape.takes_aux):
        return False
    return fits(shape, request.slots, single_agent=request.single_agent)


def by_agents(request: Request, agents: Iterable[Agent]) -> Request:
    """What it must not use, by the ids of agents, too: the scheduler knows no nodes of batch systems."""
    blocked = request.blocked_agents
    if not blocked:
        return request
    on_them = (agent.id for agent in agents if agent.site_node in blocked)
    return replace(request, blocked_agents=blocked.union(on_them))


def _may_take(agent: Agent, request: AllocationRequest) -> bool:
    machines = machines_for(request.slots, agent.slot_count)
    return not agent.is_one_of(request.blocked_agents) and request.requires.are_met_by(
        agent.facts, machines
    )


def _shape_of(
    options: ResolvedPool, agents: Sequence[Agent], *, as_in_service: bool = False
) -> PoolShape:
    """Slots that were taken out of service may come back: they count, unless asked for what is `as_in_service`."""
    sizes: dict[int, int] = {}
    for agent in agents:
        if size := agent.slots_in_service if as_in_service else agent.slot_count:
            sizes[size] = sizes.get(size, 0) + 1
    return PoolShape(
        pool=options.name,
        sizes=sizes,
        max_agents=len(agents),
        takes_aux=options.section.max_aux_containers_per_agent > 0,
        launches=options.is_dynamic,
        heterogeneous=options.scheduler.allow_heterogeneous_fits,
    )
