"""Why a gang waits, in words its user can act on. Every gang that a plan sees gets one of these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from math import inf

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count
from provisioner.capacity import CapacityMemory
from provisioner.demand import nodes_needed
from provisioner.plan_types import Machine
from provisioner.refusals import BlockKind
from provisioner.types import Offer, OfferKey, PoolSettings

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
            kind=ReasonKind.QUEUED, text=f"fits the free slots of {_listed(names)}; it starts next"
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
        listed = _listed([machine.name for machine in coming])
        text = f"{listed} booting for {oldest:.0f} s, ready in about {ready:.0f} s"
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


def unserved(
    slots: int,
    single_agent: bool,
    *,
    pool: PoolSettings,
    offers: Sequence[Offer],
    memory: CapacityMemory,
    open_keys: Collection[OfferKey],
    unseen: Mapping[OfferKey, str],
    hold: str | None,
    places_left: int,
    now: float,
) -> Reason:
    """For a gang that the plan could do nothing for: impossible, held, blocked, or cut by a limit, in that order."""
    if not slots and not pool.aux_places:
        return Reason(
            kind=ReasonKind.NO_SUCH_AGENT,
            text=f"pool {pool.pool} takes no tasks without slots (max_aux_containers_per_agent is 0)",
        )
    able = [offer for offer in offers if nodes_needed(slots, single_agent, offer.slots)]
    if not able:
        return _impossible(slots, single_agent, offers)
    fewest = min(nodes_needed(slots, single_agent, offer.slots) or 0 for offer in able)
    if fewest > pool.max_instances:
        return Reason(
            kind=ReasonKind.AT_LIMIT,
            text=f"needs {fewest} instances; max_instances of pool {pool.pool} is {pool.max_instances}",
        )
    if hold is not None:
        return Reason(kind=ReasonKind.NO_CAPACITY, text=hold)
    usable = [offer for offer in able if offer.key in open_keys]
    if not usable:
        seen = [offer for offer in able if offer.key not in unseen]
        return _blocked(seen, memory, now) if seen else _unseen(able, unseen)
    if not any((nodes_needed(slots, single_agent, o.slots) or 0) <= places_left for o in usable):
        return Reason(
            kind=ReasonKind.AT_LIMIT,
            text=f"pool {pool.pool} is at max_instances ({pool.max_instances}); waiting for free slots",
        )
    limit = pool.usd_per_hour_limit
    if limit is None:  # only a probe allows less than a limit does: the next one follows its answer
        return _blocked(usable, memory, now)
    return Reason(
        kind=ReasonKind.OVER_BUDGET,
        text=f"would exceed the budget of pool {pool.pool} ({limit:.2f} USD per hour)",
    )


def ends_too_soon(least_s: float) -> Reason:
    return Reason(
        kind=ReasonKind.NO_CAPACITY,
        text=f"no instance type of the pool runs long enough (needs {least_s / 60:.0f} min)",
    )


def _impossible(slots: int, single_agent: bool, offers: Sequence[Offer]) -> Reason:
    sizes = sorted({offer.slots for offer in offers})
    if not sizes:
        return Reason(kind=ReasonKind.NO_SUCH_AGENT, text="the pool has no instance type to launch")
    nearest = nearest_fit(slots, single_agent, sizes)
    return Reason(
        kind=ReasonKind.NO_SUCH_AGENT,
        text=f"no instance type of the pool fits {count(slots, 'slot')}{' on one agent' if single_agent else ''} "
        f"(sizes: {', '.join(map(str, sizes))}); the nearest size that fits is {nearest}",
    )


def nearest_fit(slots: int, single_agent: bool, sizes: Sequence[int]) -> int:
    """The gang size closest to `slots` that nodes of `sizes` can hold; the smaller of two equally close ones."""
    largest = max(sizes)
    if single_agent or largest == 0:
        return min(slots, largest)
    candidates = {largest}
    for size in sizes:
        if size:
            candidates |= {max(size, slots // size * size), -(-slots // size) * size}
    return min(candidates, key=lambda fit: (abs(fit - slots), fit))


def _unseen(offers: Sequence[Offer], unseen: Mapping[OfferKey, str]) -> Reason:
    """Nothing is bought where nobody knows what exists."""
    why = dict.fromkeys(unseen[offer.key] for offer in offers)
    return Reason(kind=ReasonKind.NO_CAPACITY, text=_listed([*why], "; "))


def _blocked(offers: Sequence[Offer], memory: CapacityMemory, now: float) -> Reason:
    """For a gang all of whose offers are shut, or being probed."""
    known = [(block, offer) for offer in offers if (block := memory.of(offer)) is not None]
    known.sort(key=lambda pair: (pair[0].until, pair[1].key))
    for block, offer in known:
        if not block.is_shut(now):
            return Reason(
                kind=ReasonKind.NO_CAPACITY,
                text=f"{offer_name(offer)} is retried after: {block.message or block.kind}",
                retry_at=now,
            )
    retry_at = known[0][0].until
    parts = [f"{offer_name(offer)}: {block.message or block.kind}" for block, offer in known]
    kind = ReasonKind.NO_CAPACITY
    if all(block.kind is BlockKind.QUOTA for block, _ in known):
        kind = ReasonKind.QUOTA
    if retry_at == inf:
        return Reason(kind=kind, text=_listed(parts, "; "))
    at = datetime.fromtimestamp(retry_at, UTC).strftime("%H:%M:%S")
    return Reason(
        kind=kind, text=f"{_listed(parts, '; ')}; retrying at {at} UTC", retry_at=retry_at
    )


def _listed(names: Sequence[str], separator: str = ", ") -> str:
    shown = separator.join(names[:MOST_NAMES])
    rest = len(names) - MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
