"""What elastic pools may buy now, and trying again what was refused: our own addition to the API."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from math import isfinite

from fastapi import APIRouter
from typing_extensions import TypedDict

from master.api.access import Caller
from master.api.permits import CLUSTER, permit
from master.api.replies import Reply, reply
from master.api.request_models import Body, Text
from master.api.resource_pools.shown import hidden_pools
from master.api.routing import ApiRoute
from master.api.services import Services, TheApi
from master.api.values import Timestamp, epoch
from master.auth.actions import Action
from provisioner.capacity.offer_views import OfferState, OfferView
from provisioner.types import Market, Scope
from windlass.base.errors import NotFound

router = APIRouter(prefix="/api/v1/windlass/fleet/offers", route_class=ApiRoute, tags=["windlass"])


class RefusedScope(TypedDict):
    """Offers that agree in every part that is not null."""

    provider: str
    region: str | None
    family: str | None
    instanceType: str | None
    zone: str | None
    market: Market | None
    reservation: str | None
    placement: str | None
    image: str | None


class FleetOffer(TypedDict):
    name: str
    """By which it is tried again; one offer may serve several pools."""
    pool: str
    provider: str
    region: str
    zone: str
    instanceType: str
    market: Market
    slots: int
    gpuModel: str
    """Empty: unknown."""
    gpuMemoryMib: int | None
    cpus: float | None
    memoryMib: int | None
    usdPerHour: float | None
    """Null: unknown."""
    priceOrigin: str
    """Where the price is from, and of when; empty: it is as configured."""
    state: OfferState
    reason: str
    """What the provider said when it refused, verbatim."""
    scope: RefusedScope | None
    """What that is true for."""
    nextTryAt: Timestamp | None
    """Null: it may be bought now, or nobody knows when."""
    bootS: float
    bootIsLearned: bool
    """From boots that were seen; otherwise what the offer says."""


class OffersReply(TypedDict):
    offers: list[FleetOffer]
    warnings: list[str]
    """Of vendors who could not be asked for prices."""


class RetryOffer(Body):
    offer: Text
    """Its name."""


@router.get("")
@permit(Action.VIEW_CLUSTER, CLUSTER)
async def offers(by: Caller, api: TheApi) -> Reply[OffersReply]:
    """Every offer of every pool that the caller is shown."""
    hidden = await hidden_pools(api, by)
    shown = [view for view in _views(api.services) if view.pool not in hidden]
    return reply(_reply(api.services, shown))


@router.post("/retry")
@permit(Action.UPDATE_AGENTS, CLUSTER)
async def retry(body: RetryOffer, principal: Caller, api: TheApi) -> Reply[OffersReply]:
    """Forget why it was refused, and plan anew. Returns the offer as it is then, once for each pool."""
    services = api.services
    found = next((view for view in _views(services) if view.name == body.offer), None)
    if found is None or services.provisioner is None:
        raise NotFound("offer", body.offer, _nearest(body.offer, _views(services)))
    await services.provisioner.retry(found.offer.key, by=principal)
    after = [view for view in _views(services) if view.name == body.offer]
    return reply(_reply(services, after))


def _reply(services: Services, views: Sequence[OfferView]) -> OffersReply:
    warnings = sorted(services.price_troubles().values())
    return {"offers": [_offer(view) for view in views], "warnings": warnings}


def _views(services: Services) -> Sequence[OfferView]:
    return () if services.provisioner is None else services.provisioner.offers()


def _nearest(name: str, views: Sequence[OfferView]) -> str:
    names = sorted({view.name for view in views})
    if not names:
        return "; the cluster has no elastic pool with offers"
    near = get_close_matches(name, names, cutoff=0.3)
    return f"; nearest: {', '.join(near)}" if near else "; see: det fleet offers"


def _offer(view: OfferView) -> FleetOffer:
    offer = view.offer
    key = offer.key
    return {
        "name": view.name,
        "pool": view.pool,
        "provider": key.provider,
        "region": key.region,
        "zone": key.zone,
        "instanceType": key.instance_type,
        "market": key.market,
        "slots": offer.slots,
        "gpuModel": offer.gpu_model,
        "gpuMemoryMib": offer.gpu_memory_mib,
        "cpus": offer.cpus,
        "memoryMib": offer.memory_mib,
        "usdPerHour": offer.usd_per_hour if isfinite(offer.usd_per_hour) else None,
        "priceOrigin": offer.price_origin,
        "state": view.state,
        "reason": view.reason,
        "scope": None if view.scope is None else _scope(view.scope),
        "nextTryAt": epoch(view.next_try_at),
        "bootS": view.boot_s,
        "bootIsLearned": view.is_learned,
    }


def _scope(scope: Scope) -> RefusedScope:
    return {
        "provider": scope.provider,
        "region": scope.region,
        "family": scope.family,
        "instanceType": scope.instance_type,
        "zone": scope.zone,
        "market": scope.market,
        "reservation": scope.reservation,
        "placement": scope.placement,
        "image": scope.image,
    }
