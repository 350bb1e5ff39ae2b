"""Read-only pictures of a fleet: for the planner, for the calls that are due, for screens. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from provisioner.fleet.instances import (
    BOOTS,
    CONSOLE_SAYS,
    LOST_CORDON_S,
    STILL_BILLING_S,
    TERMINATE_RETRY_S,
    BootNote,
    EndKind,
    InstanceRecord,
    InstanceState,
)
from provisioner.fleet.intents import IntentRecord, IntentState
from provisioner.fleet.state import Agents, FleetState, PoolSetup
from provisioner.fleet.stopped_pools import stopped_pools
from provisioner.fleet.stops import START_RETRY_S, STOP_RETRY_S
from provisioner.money.budgets import Money, Spending
from provisioner.money.months import month_of, month_start
from provisioner.money.prices import usd_for
from provisioner.planning.explain import expected_at
from provisioner.planning.plan_types import KeepReason, Machine, Phase, PlanInput, PoolInput
from provisioner.planning.stop_value import start_of
from provisioner.providers.images import is_bake
from provisioner.types import BlockedOffer, CostView, InstanceView, Offer, PoolDemand

CLAIM_SETTLE_S = 10.0
"""After its agent connected, a machine stays claimed for so long: time for the scheduler to place the gangs."""
BAKING = "baking"
"""The state, for people, of a machine that becomes an image."""
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
    counts = money.budgets.cluster or any(setup.settings.budget for setup in pools.values())
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
        budgets=money.budgets,
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
    return Machine(name=name, offer=offer, phase=Phase.OUT, age_s=age_s, in_pool=False)


def _asked(state: FleetState, intent: IntentRecord, now: float) -> Iterator[Machine]:
    delivery = now if intent.starts_at is None else max(now, intent.starts_at)
    ready_in_s = delivery - now + state.memory.boot_p50_s(intent.offer)
    for number, claims in enumerate(intent.claims):
        yield Machine(
            name=f"{intent.id}/{number}",
            offer=intent.offer,
            phase=Phase.COMING if intent.state is not IntentState.CANCELLING else Phase.OUT,
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
    phase = Phase.OUT
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
        phase, claims = Phase.COMING, record.claims
        ready_in_s = max(SOON_S, state.memory.boot_p50_s(offer) - (now - record.boot_since))
    elif record.state is InstanceState.READY:
        silent = 0.0 if record.silent_since is None else now - record.silent_since
        if silent <= LOST_CORDON_S:
            shown = record.id in agents.nodes
            phase = Phase.UP if shown else Phase.COMING
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
        if record.idle_since is None or phase is not Phase.UP
        else now - record.idle_since,
        ends_at=record.end(now + ready_in_s if record.ready_at is None else record.ready_at),
        claims=claims,
        fingerprint=record.fingerprint,
        replaces=record.replaces,
        replacement_tried_s=None if record.replacement_at is None else now - record.replacement_at,
        stops=len(record.stops),
    )


def due_launches(state: FleetState, now: float) -> list[IntentRecord]:
    """Committed intents whose call, first or repeated, is due."""
    if state.closing:
        return []
    open_states = (IntentState.INTENT, IntentState.CALLED)
    due = _due(state, now, *open_states)
    return [x for x in due if not x.token_is_spent and not x.given_up]


def due_answers(state: FleetState, now: float) -> list[IntentRecord]:
    """Accepted launches that are to be asked after."""
    return _due(state, now, IntentState.ACCEPTED)


def due_cancels(state: FleetState, now: float) -> list[IntentRecord]:
    """Accepted launches whose cancellation is committed and must be asked for, first or again."""
    return _due(state, now, IntentState.CANCELLING)


def _due(state: FleetState, now: float, *states: IntentState) -> list[IntentRecord]:
    return [x for x in state.intents.values() if x.state in states and x.next_try_at <= now]


def asked_after(state: FleetState, intents: Sequence[IntentRecord]) -> FleetState:
    """The state with calls about these accepted launches under way."""
    changed = {x.id: replace(x, tries=x.tries + 1, next_try_at=inf) for x in intents}
    return replace(state, intents={**state.intents, **changed})


def called(state: FleetState, intents: Sequence[IntentRecord], now: float) -> FleetState:
    """The state with these calls under way."""
    changed = {
        intent.id: replace(
            intent,
            state=IntentState.CALLED,
            called_at=now if intent.called_at is None else intent.called_at,
            tries=intent.tries + 1,
            next_try_at=inf,
        )
        for intent in intents
    }
    return replace(state, intents={**state.intents, **changed})


def due_terminations(state: FleetState, now: float) -> dict[str, list[str]]:
    """Provider -> instances whose end is committed and must be asked for, first or again."""
    due: dict[str, list[str]] = {}
    for record in state.instances.values():
        if record.state is InstanceState.TERMINATING:
            last = record.terminate_called_at
            if last is None or now - last >= TERMINATE_RETRY_S:
                due.setdefault(record.provider, []).append(record.id)
    return due


def due_stops(state: FleetState, now: float) -> list[InstanceRecord]:
    """Machines whose stop is committed and must be asked for, first or again."""
    return _due_switches(state, now, InstanceState.STOPPING, STOP_RETRY_S)


def due_starts(state: FleetState, now: float) -> list[InstanceRecord]:
    """Stopped machines whose start is committed and must be asked for, first or again."""
    if state.closing:
        return []
    return _due_switches(state, now, InstanceState.STARTING, START_RETRY_S)


def _due_switches(
    state: FleetState, now: float, wanted: InstanceState, retry_s: float
) -> list[InstanceRecord]:
    return [
        record
        for record in state.instances.values()
        if record.state is wanted
        and (record.switch_called_at is None or now - record.switch_called_at >= retry_s)
    ]


def switch_called(state: FleetState, records: Sequence[InstanceRecord], now: float) -> FleetState:
    """The state with these calls to stop or start machines under way."""
    changed = {
        x.id: replace(x, switch_called_at=now, stop_under_way=x.state is InstanceState.STOPPING)
        for x in records
    }
    return replace(state, instances={**state.instances, **changed})


def failed_boots(state: FleetState, instance_ids: Iterable[str]) -> list[str]:
    """Those that never had an agent, and are to be ended for the first time: their consoles say why."""
    found = [state.instances[instance_id] for instance_id in instance_ids]
    return [
        x.id
        for x in found
        if x.end_kind is EndKind.BOOT
        and x.terminate_called_at is None
        and CONSOLE_SAYS not in x.reason
    ]


def asked_to_end(state: FleetState, instance_ids: Sequence[str], now: float) -> FleetState:
    """The state with these terminate calls under way."""
    changed = {id_: replace(state.instances[id_], terminate_called_at=now) for id_ in instance_ids}
    return replace(state, instances={**state.instances, **changed})


def moving(state: FleetState) -> list[InstanceRecord]:
    """Machines whose work is to leave by our own will."""
    return [x for x in state.instances.values() if x.moving_since is not None and x.is_alive]


def to_tell(state: FleetState) -> list[InstanceRecord]:
    """Machines that are gone and whose host may not know yet."""
    return [record for record in state.instances.values() if not record.is_alive]


def instance_views(
    state: FleetState,
    now: float,
    kept: Mapping[str, KeepReason] | None = None,
    boots: Mapping[str, BootNote] | None = None,
) -> list[InstanceView]:
    """`kept`: as the last plan says. `boots`: what machines said last that have no agent yet."""
    views = [
        InstanceView(
            id=f"{intent.id}/{number}",
            pool=intent.pool,
            offer=intent.offer.key,
            slots=intent.offer.slots,
            usd_per_hour=intent.offer.usd_per_hour,
            state=intent.state.value if intent.is_queued else "asking",
            created_at=intent.created_at,
            reason=intent.cancel_why or _queue_remark(intent) or intent.message,
        )
        for intent in state.intents.values()
        if not intent.is_finished
        for number in range(intent.count)
    ]
    stays = kept or {}
    return views + [
        InstanceView(
            id=record.id,
            pool=record.pool,
            offer=record.offer.key,
            slots=record.offer.slots,
            usd_per_hour=record.usd_per_hour,
            state=_view_state(record),
            created_at=record.created_at,
            ready_at=record.up_at,
            idle_since=record.idle_since,
            usd=record.usd(now),
            reason=_remark(state, record, now, (boots or {}).get(record.id)),
            kept_because=stays[record.id].why if record.id in stays else "",
            kept_until=stays[record.id].until if record.id in stays else None,
            notice=record.notice if record.is_alive else None,
        )
        for record in state.instances.values()
    ]


def _view_state(record: InstanceRecord) -> str:
    booting = record.state in (InstanceState.PENDING, InstanceState.BOOTING)
    return BAKING if booting and is_bake(record.intent_id) else record.state.value


def _queue_remark(intent: IntentRecord) -> str:
    if not intent.queue_reason or intent.starts_at is None:
        return intent.queue_reason
    return f"{intent.queue_reason}; {expected_at(intent.starts_at)}"


def _remark(state: FleetState, record: InstanceRecord, now: float, boot: BootNote | None) -> str:
    if record.state in (InstanceState.PENDING, InstanceState.BOOTING):
        if boot is not None:
            return f"boot: {boot.words}"
        if stage := state.stages.get(record.id):
            return stage
    if record.state is InstanceState.LOST:
        return state.frozen or "its agent is silent"
    if record.moving_since is not None and record.state is InstanceState.READY:
        return f"draining since {now - record.moving_since:.0f} s: {record.moving_why}"
    if record.id in state.retired:
        return f"{state.retired[record.id]}: it ends when its work has"
    since = record.terminate_since
    if record.state is InstanceState.TERMINATING and record.terminate_refused:
        return f"still billing: {record.terminate_refused}; was to end: {record.reason}"
    if record.state is InstanceState.TERMINATING and since and now - since > STILL_BILLING_S:
        return f"still billing {now - since:.0f} s after it was to end: {record.reason}"
    return record.reason


def blocked_offers(state: FleetState, offers: Iterable[Offer], now: float) -> list[BlockedOffer]:
    """Those of `offers` that a refusal covers, each once."""
    blocked = {}
    for offer in offers:
        block = state.memory.of(offer)
        if block is not None and block.is_shut(now):
            blocked[offer.key] = BlockedOffer(
                offer=offer.key,
                reason=block.message,
                until=None if block.until == inf else block.until,
            )
    return list(blocked.values())


def cost_view(state: FleetState, now: float) -> CostView:
    records = state.instances.values()
    rate = sum(record.usd_per_hour for record in records if record.is_alive)
    living = sum(record.usd(now) for record in records)
    view = state.ledger.view(living_usd=living, usd_per_hour=rate, now=now)
    first = view.first_launch_at
    if first is None:
        return view
    earliest = min([first, *(record.created_at for record in records)])
    return replace(view, always_on_usd=usd_for(view.peak_usd_per_hour, now - earliest))
