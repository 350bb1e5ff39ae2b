"""Machines and money: our own addition to the API."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from master.api.values import epoch
from master.api.windlass.replies import BlockedOffer, FleetCost, Instance, Offer
from provisioner import types
from provisioner.types import CostView, InstanceView, OfferKey

GONE = "gone"
_ACTIVITIES: Mapping[str, str] = {
    "asking": "booting",
    "pending": "booting",
    "booting": "booting",
    "starting": "booting",
    "terminating": "ending",
}
"""For states that do not depend on what the machine does. READY is busy or idle."""


def activity(view: InstanceView) -> str:
    """What a person wants to know of a machine: booting, busy, idle, ending, lost, ..."""
    if view.state == "ready":
        return "busy" if view.idle_since is None else "idle"
    return _ACTIVITIES.get(view.state, view.state)


def instance(view: InstanceView, now: float) -> Instance:
    return {
        "id": view.id,
        "pool": view.pool,
        "offer": shown_offer(view.offer),
        "slots": view.slots,
        "usdPerHour": view.usd_per_hour,
        "usd": view.usd,
        "state": view.state,
        "activity": activity(view),
        "reason": view.reason,
        "createdAt": epoch(view.created_at),
        "readyAt": epoch(view.ready_at),
        "ageS": max(0.0, now - view.created_at),
        "idleS": None if view.idle_since is None else max(0.0, now - view.idle_since),
        "keptBecause": view.kept_because,
        "keptUntil": epoch(view.kept_until),
        "leavesAt": None if view.notice is None else epoch(view.notice.at),
        "leavesBecause": "" if view.notice is None else view.notice.why,
    }


def blocked(view: types.BlockedOffer) -> BlockedOffer:
    return {
        "offer": shown_offer(view.offer),
        "reason": view.reason,
        "until": epoch(view.until),
    }


def shown_offer(key: OfferKey) -> Offer:
    return {
        "provider": key.provider,
        "region": key.region,
        "zone": key.zone,
        "instanceType": key.instance_type,
        "market": key.market,
    }


def known_usd(usd: float) -> float | None:
    """None: the price is unknown."""
    return usd if isfinite(usd) else None


def cost(view: CostView) -> FleetCost:
    """What the fleet has cost, beside a fleet of the same peak that never sleeps."""
    return {
        "usd": view.spent_usd,
        "usdPerHour": view.usd_per_hour,
        "peakInstances": view.peak_instances,
        "peakUsdPerHour": view.peak_usd_per_hour,
        "firstLaunchAt": epoch(view.first_launch_at),
        "alwaysOnUsd": view.always_on_usd,
    }


NO_COST: FleetCost = {
    "usd": 0.0,
    "usdPerHour": 0.0,
    "peakInstances": 0,
    "peakUsdPerHour": 0.0,
    "firstLaunchAt": None,
    "alwaysOnUsd": 0.0,
}
"""Of a cluster without elastic pools."""
