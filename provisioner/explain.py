"""Why a gang waits, in words its user can act on. Every gang that a plan sees gets one of these."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count
from provisioner.plan_types import Machine
from provisioner.types import Offer

MOST_NAMES = 4
"""Instances or offers named in one reason before the rest is counted."""


def offer_name(offer: Offer) -> str:
    """`p4d.24xlarge in us-east-1a (spot)`, without the parts that say nothing."""
    key = offer.key
    place = key.zone or key.region
    name = key.instance_type or count(offer.slots, "slot")
    return f"{name}{f' in {place}' if place else ''}{f' ({key.market})' if key.market != 'on_demand' else ''}"


def asking_now(offer: Offer, count: int) -> Reason:
    return Reason(kind=ReasonKind.LAUNCHING, text=f"launching {count} x {offer_name(offer)}")


def claimed(names: Sequence[str], coming: Sequence[Machine]) -> Reason:
    """For a gang that has free or coming nodes to itself."""
    if not coming:
        return Reason(
            kind=ReasonKind.QUEUED, text=f"fits the free slots of {listed(names)}; it starts next"
        )
    queued = [machine for machine in coming if machine.queued]
    if queued:
        return _queued(queued)
    asking = [machine for machine in coming if machine.asking]
    if asking:
        first = asking[0]
        text = f"launching {len(asking)} x {offer_name(first.offer)}: requested {first.age_s:.0f} s ago"
        if first.note:
            text = f"{text}: {first.note}"
    else:
        oldest = max(machine.age_s for machine in coming)
        ready = max(machine.ready_in_s for machine in coming)
        names = [machine.name for machine in coming]
        text = f"{listed(names)} booting for {oldest:.0f} s, ready in about {ready:.0f} s"
    return Reason(kind=ReasonKind.LAUNCHING, text=text)


def _queued(machines: Sequence[Machine]) -> Reason:
    """Nothing is on its way yet: it waits for capacity, as the provider says."""
    first = machines[0]
    text = f"{len(machines)} x {offer_name(first.offer)} queued at {first.offer.key.provider} for {first.age_s:.0f} s"
    if first.note:
        text = f"{text}: {first.note}"
    at = max((m.starts_at for m in machines if m.starts_at is not None), default=None)
    if at is not None:
        when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
        text = f"{text}; expected to start at {when} UTC"
    return Reason(kind=ReasonKind.NO_CAPACITY, text=text, retry_at=at)


def listed(names: Sequence[str], separator: str = ", ") -> str:
    shown = separator.join(names[:MOST_NAMES])
    rest = len(names) - MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
