"""What the planner is given of a fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from provisioner.fleet.instances import (
    BOOTS,
    LOST_CORDON_S,
    InstanceRecord,
    InstanceState,
)
from provisioner.fleet.intents import IntentRecord, IntentState
from provisioner.fleet.state import Agents, FleetState, PoolSetup
from provisioner.fleet.stopped_pools import stopped_pools
from provisioner.money.budgets import Money, Spending
from provisioner.money.months import month_of, month_start
from provisioner.planning.plan_types import Machine, MachinePhase, PlanInput, PoolInput
from provisioner.planning.scale_down.stop_value import start_of
from provisioner.providers.images import is_bake
from provisioner.types import Offer, PoolDemand

CLAIM_SETTLE_S = 10.0
"""After its agent connected, a machine stays claimed for so long: time for the scheduler to place the gangs."""
SOON_S = 1.0
"""Expected wait for something that should have happened already."""


def plan_input(
    state: FleetState,
    demand: Sequence[PoolDemand],
    pools: Mapping[str, PoolSetup],
    agents: Agents,
    now: float,
    money: Money,
) -> PlanInput:
    """One immutable snapshot for `plan`; pools without demand are planned for their minimum and idle nodes."""
    machines, off = _machines(state, agents, now), stopped_pools(state, pools, now)
    counts = money.budget or any(setup.settings.budget for setup in pools.values())
    spent = pool_spending(state, now) if counts else {}
    by_pool = {each.pool: off.without_stopped(each) for each in demand}
    inputs = [
        PoolInput(
            settings=setup.settings,
            offers=(*setup.offers, *off.start_offers(pool)),
            demand=by_pool.get(pool, PoolDemand(pool=pool)),
            machines=tuple(machines.get(pool, ())),
            stopped=off.stopped(pool),
            gaps_s=off.gaps_s(pool),
            running=setup.running,
            fingerprints=setup.fingerprints,
            hold="the provisioner is shutting down" if state.closing else None,
        )
        for pool, setup in pools.items()
    ]
    return PlanInput(
        now=now,
        pools=tuple(inputs),
        memory=state.memory,
        unseen=state.unseen,
        budget=money.budget,
        spending=Spending(pools=spent, users=money.users()),
    )


def pool_spending(state: FleetState, now: float) -> dict[str, float]:
    """What the machines of each pool cost in the month of `now` so far."""
    spent = dict(state.ledger.months.get(month_of(now), {}))
    since = month_start(now)
    for record in state.instances.values():
        start, end = record.billed(now)
        first, last = max(start, since), min(end, now)
        usd = record.usd_between(first, last) if first < last else 0.0
        spent[record.pool] = spent.get(record.pool, 0.0) + usd
    return spent


def _machines(state: FleetState, agents: Agents, now: float) -> dict[str, list[Machine]]:
    """By pool: what was asked for, then what exists."""
    found: dict[str, list[Machine]] = {}
    for intent in state.intents.values():
        if is_bake(intent.id) and not intent.is_finished:
            age_s = now - intent.created_at
            found.setdefault(intent.pool, []).append(_baking(intent.id, intent.offer, age_s))
        elif not intent.is_finished:
            found.setdefault(intent.pool, []).extend(_asked(state, intent, now))
    for record in state.instances.values():
        if is_bake(record.intent_id) and record.is_alive:
            age_s = now - record.created_at
            found.setdefault(record.pool, []).append(_baking(record.id, record.offer, age_s))
        elif record.is_alive and record.state is not InstanceState.STOPPED:
            found.setdefault(record.pool, []).append(_machine(state, record, agents, now))
    return found


def _baking(name: str, offer: Offer, age_s: float) -> Machine:
    """It costs money, and nothing else counts with it."""
    return Machine(name=name, offer=offer, phase=MachinePhase.OUT, age_s=age_s, in_pool=False)


def _asked(state: FleetState, intent: IntentRecord, now: float) -> Iterator[Machine]:
    delivery = now if intent.starts_at is None else max(now, intent.starts_at)
    ready_in_s = delivery - now + state.memory.boot_p50_s(intent.offer)
    for number, claims in enumerate(intent.claims):
        yield Machine(
            name=f"{intent.id}/{number}",
            offer=intent.offer,
            phase=MachinePhase.COMING
            if intent.state is not IntentState.CANCELLING
            else MachinePhase.OUT,
            group=intent.id,
            age_s=now - (intent.accepted_at or intent.created_at),
            ready_in_s=ready_in_s,
            asking=not intent.is_queued,
            unanswered_s=intent.unanswered_s(now),
            queued=intent.state is IntentState.ACCEPTED,
            unmade=intent.made_nothing and intent.generation == state.generation,
            starts_at=intent.starts_at,
            note=intent.queue_reason or intent.message,
            trouble=intent.trouble,
            next_try_at=None if intent.next_try_at == inf else intent.next_try_at,
            ends_at=intent.offer.end_of(now + ready_in_s),
            claims=claims,
            fingerprint=intent.fingerprint,
            replaces=intent.replaces,
        )


def _machine(state: FleetState, record: InstanceRecord, agents: Agents, now: float) -> Machine:
    age = now - record.created_at
    phase = MachinePhase.OUT
    if (
        record.id in state.retired
        or record.moving_since is not None
        or record.notice is not None
        or record.state is InstanceState.STOPPING
    ):
        return Machine(
            name=record.id,
            offer=record.offer,
            phase=phase,
            group=record.intent_id,
            age_s=age,
            moving=record.moving_since is not None,
            stopping=record.state is InstanceState.STOPPING,
        )
    offer = record.offer if not record.stops else start_of(record.offer, state.memory)
    ready_in_s = 0.0
    claims: tuple[str, ...] = ()
    if record.state in BOOTS:
        phase, claims = MachinePhase.COMING, record.claims
        ready_in_s = max(SOON_S, state.memory.boot_p50_s(offer) - (now - record.boot_since))
    elif record.state is InstanceState.READY:
        silent = 0.0 if record.silent_since is None else now - record.silent_since
        if silent <= LOST_CORDON_S:
            shown = record.id in agents.nodes
            phase = MachinePhase.UP if shown else MachinePhase.COMING
            ready_in_s = 0.0 if shown else SOON_S
        offer = record.offer
        up_at = record.up_at
        ready_at = now if up_at is None else up_at
        claims = record.claims if now - ready_at < CLAIM_SETTLE_S else ()
    return Machine(
        name=record.id,
        offer=offer,
        phase=phase,
        group=record.intent_id,
        age_s=age,
        asking=record.state is InstanceState.STARTING,
        ready_in_s=ready_in_s,
        idle_s=None
        if record.idle_since is None or phase is not MachinePhase.UP
        else now - record.idle_since,
        ends_at=record.end(now + ready_in_s if record.ready_at is None else record.ready_at),
        claims=claims,
        fingerprint=record.fingerprint,
        replaces=record.replaces,
        replacement_tried_s=None if record.replacement_at is None else now - record.replacement_at,
        stops=len(record.stops),
    )
