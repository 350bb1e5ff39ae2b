"""What is shown of the fleet: machines, what blocks offers, costs; and what its listeners are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from provisioner.fleet.instances import (
    STILL_BILLING_S,
    BootNote,
    InstanceRecord,
    InstanceState,
)
from provisioner.fleet.intents import IntentRecord
from provisioner.fleet.state import FleetState
from provisioner.money.prices import usd_for
from provisioner.planning.explain import expected_at
from provisioner.planning.plan_types import KeepReason
from provisioner.providers.images import is_bake
from provisioner.types import BlockedOffer, CostView, InstanceView, Offer

BAKING = "baking"
"""The state, for people, of a machine that becomes an image."""


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
