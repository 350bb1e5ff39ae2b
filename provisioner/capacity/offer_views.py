"""The offers of all pools as screens show them: what each is, and whether it may be bought now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.fleet.instances import InstanceState
from provisioner.fleet.state import FleetState, PoolSetup
from provisioner.planning.explain import unseen_text
from provisioner.planning.scale_down.stop_value import start_of
from provisioner.types import Offer, OfferKey, Scope


class OfferState(StrEnum):
    OPEN = "open"
    REFUSED = "refused"
    RECOVERING = "recovering"
    """The wait after a refusal is over: one launch at a time tries it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferView:
    """One offer of one pool."""

    pool: str
    offer: Offer
    state: OfferState
    reason: str = ""
    """What the provider said when it refused, verbatim."""
    scope: Scope | None = None
    """What that is true for."""
    next_try_at: float | None = None
    """When a launch may be tried again. None: nobody knows, or it may be bought."""
    boot_s: float
    """Expected from the call to an agent that takes work."""
    is_learned: bool
    """From boots that were seen; otherwise it is what the offer says."""

    @property
    def name(self) -> str:
        return offer_id(self.offer.key)


def offer_id(key: OfferKey) -> str:
    """What people call the offer by: the parts that its key gives."""
    parts = (key.provider, key.region, key.zone, key.instance_type, key.market.value)
    more = (key.reservation, key.placement, "stopped" if key.stopped else "")
    return "/".join(part for part in (*parts, *more) if part)


def offer_views(state: FleetState, pools: Iterable[PoolSetup], now: float) -> list[OfferView]:
    return [view for setup in pools for view in _of_pool(state, setup, now)]


def _of_pool(state: FleetState, setup: PoolSetup, now: float) -> Iterator[OfferView]:
    pool = setup.settings.pool
    off = {
        record.offer.key
        for record in state.instances.values()
        if record.pool == pool and record.state in (InstanceState.STOPPED, InstanceState.STARTING)
    }
    starts = [start_of(offer, state.memory) for offer in setup.offers if offer.key in off]
    for offer in (*setup.offers, *starts):
        standing, reason, scope, next_try_at = _standing(state, offer, now)
        boots = state.memory.boots.get(scope_of(BlockKind.BOOT, offer))
        yield OfferView(
            pool=pool,
            offer=offer,
            state=standing,
            reason=reason,
            scope=scope,
            next_try_at=next_try_at,
            boot_s=state.memory.boot_p50_s(offer),
            is_learned=boots is not None and boots.mean_s is not None,
        )


def _standing(
    state: FleetState, offer: Offer, now: float
) -> tuple[OfferState, str, Scope | None, float | None]:
    """State, reason, scope and next try."""
    for scope, why in state.unseen.items():
        if scope.covers(offer):
            return OfferState.REFUSED, unseen_text(scope, why), scope, None
    block = state.memory.of(offer)
    if block is None:
        return OfferState.OPEN, "", None, None
    said = block.message or block.kind.value
    if not block.is_shut(now):
        return OfferState.RECOVERING, said, block.scope, None
    return OfferState.REFUSED, said, block.scope, None if block.until == inf else block.until
