"""Why a plan could do nothing for a gang: impossible, held, refused, waiting for spot, or cut by a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import inf

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count
from master.core.unmet import unmet
from provisioner.capacity.memory import Block
from provisioner.capacity.refusals import BlockKind
from provisioner.planning.explain import common_kind, listed, offer_name, trouble_text, unseen_text
from provisioner.planning.gang_classes import GangClass, nodes_needed
from provisioner.planning.plan_types import PoolInput
from provisioner.planning.scale_up.limits import PoolLimits
from provisioner.planning.scale_up.quotes import Quotes
from provisioner.types import Offer


class UnmetDemand:
    """Asks one question after the other; the first that is answered is the reason. Lives for one plan of a pool."""

    def __init__(self, pool: PoolInput, quotes: Quotes, limits: PoolLimits, now: float) -> None:
        self._pool = pool
        self._settings = pool.settings
        self._quotes = quotes
        self._open_offers = quotes.open_offers
        self._limits = limits
        self._now = now

    def reason(self, gangs: GangClass) -> Reason:
        """One sentence for the users of these gangs."""
        sold = (offer for offer in self._pool.offers if not offer.key.stopped)
        able = [offer for offer in sold if _nodes(gangs, offer)]
        return self._impossible(gangs, able) or self._refused(gangs, able)

    def _impossible(self, gangs: GangClass, able: Sequence[Offer]) -> Reason | None:
        """It never can, or not as this pool is set up."""
        settings = self._settings
        if not gangs.slots and not settings.aux_places:
            return _never(
                f"pool {settings.pool} takes no tasks without slots (max_aux_containers_per_agent is 0)"
            )
        if not able:
            return _never(no_such_size(gangs.slots, gangs.single_agent, self._pool.offers))
        wants = gangs.wants
        if wants.requires is not None:
            kinds = {(offer.slots, self._quotes.facts(offer)) for offer in able}
            why = unmet(settings.pool, wants.requires, gangs.slots, kinds)
            if why is not None:
                return _never(why)
        if not any(self._quotes.is_lasting(offer, wants.least_s) for offer in able):
            needs = f"needs {wants.least_s / 60:.0f} min"
            return _no_capacity(f"no instance type of the pool runs long enough ({needs})")
        suitable = [offer for offer in able if self._quotes.suits(offer, gangs)]
        fewest = min((_nodes(gangs, offer) for offer in suitable), default=0)
        if fewest > settings.max_instances:
            most = f"max_instances of pool {settings.pool} is {settings.max_instances}"
            return Reason(kind=ReasonKind.AT_LIMIT, text=f"needs {fewest} instances; {most}")
        return None

    def _refused(self, gangs: GangClass, able: Sequence[Offer]) -> Reason:
        """It could, but not now."""
        if self._pool.hold is not None:
            return _no_capacity(self._pool.hold)
        suitable = [offer for offer in able if self._quotes.suits(offer, gangs)]
        usable = self._open_offers.only_open(suitable) or self._open_offers.only_spared(suitable)
        if not usable:
            unseen = self._open_offers.unseen
            seen = [offer for offer in suitable if offer.key not in unseen]
            if seen:
                return self._over_quota(gangs, seen) or self._blocked(seen)
            why = dict.fromkeys(unseen[offer.key] for offer in suitable)
            said = listed([unseen_text(*each) for each in why], "; ")
            return Reason(kind=common_kind(each.kind for _, each in why), text=said)
        settings = self._settings
        if not any(_nodes(gangs, offer) <= self._limits.places for offer in usable):
            text = f"pool {settings.pool} is at max_instances ({settings.max_instances}); waiting for free slots"
            return Reason(kind=ReasonKind.AT_LIMIT, text=text)
        if self._quotes.waits_for_spot(gangs) and not any(
            _nodes(gangs, quote.offer) for quote in self._quotes.of(gangs)
        ):
            return self._waits_for_spot(gangs, suitable)
        needs = [(_nodes(gangs, offer), offer) for offer in usable]
        count, cheapest = min(needs, key=lambda pair: (pair[0] * pair[1].usd_per_hour, pair[1].key))
        # Only a probe allows less than limits do.
        return self._limits.reason(cheapest, count) or self._blocked(usable)

    def _over_quota(self, gangs: GangClass, seen: Sequence[Offer]) -> Reason | None:
        """If nothing has refused, and quotas that are known beforehand are all that is in the way."""
        if any(self._refusals(seen)):
            return None
        quotas = self._open_offers.quotas
        over = [offer for offer in seen if quotas.machines(offer) < 1]
        reasons = (quotas.reason(offer, _nodes(gangs, offer)) for offer in over)
        texts = dict.fromkeys(reason.text for reason in reasons if reason is not None)
        return Reason(kind=ReasonKind.QUOTA, text=listed([*texts], "; ")) if texts else None

    def _waits_for_spot(self, gangs: GangClass, suitable: Sequence[Offer]) -> Reason:
        until = gangs.oldest_since + self._settings.on_demand_after_s
        said = [f"; {text}" for _, text in self._refusals(suitable)][:1]
        return Reason(
            kind=ReasonKind.NO_CAPACITY,
            text=f"waiting for spot capacity until {_clock(until)}, then on-demand is bought{''.join(said)}",
            retry_at=self._now,
        )

    def _blocked(self, offers: Sequence[Offer]) -> Reason:
        """All its offers are shut, or being probed."""
        known = sorted(self._refusals(offers), key=lambda pair: (pair[0].until, pair[1]))
        for block, text in known:
            if not block.is_shut(self._now):
                return Reason(
                    kind=ReasonKind.NO_CAPACITY,
                    text=f"being tried again after {text}",
                    retry_at=self._now,
                )
        kind = common_kind(block.kind for block, _ in known)
        said = listed([text for _, text in known], "; ")
        first = known[0][0].until if known else self._now
        if first == inf:
            return Reason(kind=kind, text=f"{said}; tried again when the configuration has changed")
        text = f"{said}; retrying at {_clock(first)}"
        return Reason(kind=kind, text=text, retry_at=first)

    def _refusals(self, offers: Sequence[Offer]) -> Iterator[tuple[Block, str]]:
        """Each refusal once, with what it is about."""
        told = set()
        for offer in offers:
            block = self._open_offers.memory.of(offer)
            if block is not None and block.scope not in told:
                told.add(block.scope)
                yield block, refusal_text(block, offer)


def refusal_text(block: Block, offer: Offer) -> str:
    """E.g. `quota vCPUs of p4d.24xlarge (spot) is used up (64): You have requested ...`."""
    said = block.message or block.kind.value
    provider = block.scope.provider
    match block.kind:
        case BlockKind.QUOTA:
            quota = f"quota {block.quota}" if block.quota else "a quota"
            limit = "" if block.number is None else f" (limit {block.number:g})"
            return f"{offer_name(offer)}: {quota}{limit} is used up: {said}"
        case BlockKind.AUTH | BlockKind.CONFIG | BlockKind.THROTTLED | BlockKind.TRANSIENT:
            return trouble_text(provider, block.kind, said)
        case BlockKind.BOOT:
            return f"{offer_name(offer)}: its machines do not come up: {said}"
        case _:
            return f"{offer_name(offer)}: {said}"


def no_such_size(slots: int, single_agent: bool, offers: Sequence[Offer]) -> str:
    sizes = sorted({offer.slots for offer in offers})
    if not sizes:
        return "the pool has no instance type to launch"
    one = " on one agent" if single_agent else ""
    listing = ", ".join(map(str, sizes))
    return (
        f"no instance type of the pool fits {count(slots, 'slot')}{one} (sizes: {listing}); "
        f"the nearest size that fits is {nearest_fit(slots, single_agent, sizes)}"
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


def _nodes(gangs: GangClass, offer: Offer) -> int:
    """0: it cannot run there."""
    return nodes_needed(gangs.slots, gangs.single_agent, offer.slots) or 0


def _never(text: str) -> Reason:
    return Reason(kind=ReasonKind.NO_SUCH_AGENT, text=text)


def _no_capacity(text: str) -> Reason:
    return Reason(kind=ReasonKind.NO_CAPACITY, text=text)


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"
