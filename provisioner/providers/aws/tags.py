"""What a machine says of itself: tags that are given with the call that makes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

from provisioner.providers.base import LaunchIntent
from provisioner.sections.aws import AwsSection
from provisioner.types import Market, OfferKey

CLUSTER = "windlass:cluster"
PROVIDER = "windlass:provider"
POOL = "windlass:pool"
INTENT = "windlass:intent"
GENERATION = "windlass:generation"
CREATED_AT = "windlass:created-at"
MARKET = "windlass:market"
RESERVATION = "windlass:reservation"
PLACEMENT = "windlass:placement"
SLOTS = "windlass:slots"
USD_PER_HOUR = "windlass:usd-per-hour"

_N = TypeVar("_N", int, float)


def tags_of(intent: LaunchIntent, section: AwsSection) -> dict[str, str]:
    offer, key = intent.offer, intent.offer.key
    ours = {
        CLUSTER: intent.cluster_id,
        PROVIDER: key.provider,
        POOL: intent.pool,
        INTENT: intent.intent_id,
        GENERATION: str(intent.generation),
        CREATED_AT: repr(intent.created_at),
        MARKET: key.market.value,
        SLOTS: str(offer.slots),
        USD_PER_HOUR: repr(offer.usd_per_hour),
    }
    if key.reservation:
        ours[RESERVATION] = key.reservation
    if key.placement:
        ours[PLACEMENT] = key.placement
    return section.all_tags | ours


def offer_key_of(
    tags: Mapping[str, str], *, region: str, zone: str, instance_type: str
) -> OfferKey:
    market = Market.ON_DEMAND
    with suppress(ValueError):
        market = Market(tags.get(MARKET, ""))
    return OfferKey(
        provider=tags.get(PROVIDER, ""),
        region=region,
        zone=zone,
        instance_type=instance_type,
        market=market,
        reservation=tags.get(RESERVATION, ""),
        placement=tags.get(PLACEMENT, ""),
    )


def number(tags: Mapping[str, str], key: str, default: _N) -> _N:
    """People can change tags: what is no number counts as not there."""
    with suppress(ValueError):
        return type(default)(tags[key]) if key in tags else default
    return default
