"""Why a gang waits, in words its user can act on. Every gang that a plan sees gets one of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, Unseen
from provisioner.planning.plan_types import Machine
from provisioner.types import Offer, Scope

MOST_NAMES = 4
"""Instances or offers named in one reason before the rest is counted."""

_KINDS: Mapping[BlockKind | None, ReasonKind] = {
    BlockKind.QUOTA: ReasonKind.QUOTA,
    BlockKind.AUTH: ReasonKind.CREDENTIALS,
    BlockKind.CONFIG: ReasonKind.MISCONFIGURED,
    BlockKind.THROTTLED: ReasonKind.THROTTLED,
    BlockKind.TRANSIENT: ReasonKind.UNREACHABLE,
}
"""Others are ways of having no capacity."""


def common_kind(kinds: Iterable[BlockKind | None]) -> ReasonKind:
    """The kind of all these refusals; those of several kinds have but one thing in common: no capacity."""
    of = {_KINDS.get(kind, ReasonKind.NO_CAPACITY) for kind in kinds}
    return of.pop() if len(of) == 1 else ReasonKind.NO_CAPACITY


def trouble_text(provider: str, kind: BlockKind | None, said: str) -> str:
    """What is wrong with a whole provider, in one sentence."""
    match kind:
        case BlockKind.AUTH:
            return f"{provider} does not accept the cluster's credentials: {said}"
        case BlockKind.CONFIG:
            return f"{provider} refuses the pool's configuration: {said}"
        case BlockKind.THROTTLED:
            return f"{provider} is throttling calls: {said}"
        case _:
            return f"{provider} cannot be reached or has failed: {said}"


def unseen_text(scope: Scope, unseen: Unseen) -> str:
    """Why nothing is bought there."""
    where = f"{scope.provider}, zone {scope.zone}," if scope.zone else scope.provider
    if unseen.kind is None:
        return f"{where}: {unseen.said}"
    return trouble_text(where, unseen.kind, unseen.said)


def offer_name(offer: Offer) -> str:
    """`p4d.24xlarge in us-east-1a (spot)`, without the parts that say nothing."""
    key = offer.key
    place = key.zone or key.region
    name = key.instance_type or count(offer.slots, "slot")
    more = f"{f' in {place}' if place else ''}{f' ({key.market})' if key.market != 'on_demand' else ''}"
    return f"stopped {name}{more}" if key.stopped else f"{name}{more}"


def asking_now(
    offer: Offer,
    count: int,
    starts: Sequence[str] = (),
    *,
    is_of_one_gang: bool = False,
    slower: float = 1.0,
) -> Reason:
    """`starts`: the stopped machines that are started; `slower`: as one run over all these machines is expected."""
    if starts:
        what = "stopped machine" if len(starts) == 1 else "stopped machines"
        return Reason(kind=ReasonKind.LAUNCHING, text=f"starts {what} {listed(starts)}")
    text = f"launching {count} x {offer_name(offer)}"
    if is_of_one_gang:
        text += " for one run"
    if slower > 1.0:
        text += f": by their network about {slower:.1f} times as long as on one machine"
    return Reason(kind=ReasonKind.LAUNCHING, text=text)


def after_failed_boot(reason: Reason, offer: Offer, memory: CapacityMemory) -> Reason:
    """With how the last machine of that kind failed, if it did."""
    said = memory.last_failed_boot(offer)
    return replace(reason, text=f"{reason.text}; the last of its kind: {said}") if said else reason


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
        return _asking(asking)
    else:
        oldest = max(machine.age_s for machine in coming)
        ready = max(machine.ready_in_s for machine in coming)
        names = [machine.name for machine in coming]
        text = f"{listed(names)} booting for {oldest:.0f} s, ready in about {ready:.0f} s"
    return Reason(kind=ReasonKind.LAUNCHING, text=text)


def _asking(machines: Sequence[Machine]) -> Reason:
    first = machines[0]
    what = f"launching {len(machines)} x {offer_name(first.offer)}"
    if first.offer.key.stopped:
        what = f"starts {listed([m.name for m in machines])}, {offer_name(first.offer)}"
    asked = f"requested {first.age_s:.0f} s ago"
    if first.trouble is None:
        return Reason(kind=ReasonKind.LAUNCHING, text=f"{what}: {asked}")
    said = trouble_text(first.offer.key.provider, first.trouble, first.note)
    return Reason(
        kind=_KINDS.get(first.trouble, ReasonKind.UNREACHABLE),
        text=f"{said}; {what}: {asked}, and again until it answers",
        retry_at=first.next_try_at,
    )


def _queued(machines: Sequence[Machine]) -> Reason:
    """Nothing is on its way yet: it waits for capacity, as the provider says."""
    first = machines[0]
    text = f"{len(machines)} x {offer_name(first.offer)} queued at {first.offer.key.provider} for {first.age_s:.0f} s"
    if first.note:
        text = f"{text}: {first.note}"
    at = max((m.starts_at for m in machines if m.starts_at is not None), default=None)
    if at is not None:
        text = f"{text}; {expected_at(at)}"
    return Reason(kind=ReasonKind.QUEUED_AT_PROVIDER, text=text, retry_at=at)


def expected_at(at: float) -> str:
    return f"expected to start at {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def listed(names: Sequence[str], separator: str = ", ") -> str:
    shown = separator.join(names[:MOST_NAMES])
    rest = len(names) - MOST_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
