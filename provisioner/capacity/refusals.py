"""Why a provider sells nothing: every kind of refusal, what it is true for, and when it is asked again.

    kind          true for                            asked again after
    capacity      type, zone, market, reservation,    2 min, times 1.5, up to 20 min
                  placement
    unsupported   type, zone                          24 h
    reservation   reservation                         1 min, times 2, up to 10 min
    quota         region, family, market              10 min, times 1.5, up to 60 min
    network       region, zone (its subnet)           10 min
    placement     placement group                     10 min
    throttled     region                              1 s, times 2, up to 60 s
    config        provider                            a restart, or by hand
    auth          provider                            1 min
    transient     nothing else than the call          1 s, times 2, up to 30 s
    unknown       the offer                           2 min
    boot          the offer and its image; all its    30 min
                  zones, if boots fail in several
    taken_back    the spot offer of a machine that    2 min after the machine goes; before, if no
                  its provider takes back             other offer serves

Every one is within one provider: one account in one region, or one site. The waits of `capacity` were measured on spot
traces: a longer cap costs real waiting, a shorter first wait costs failing calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from provisioner.types import Offer, Scope


class BlockKind(StrEnum):
    CAPACITY = "capacity"
    UNSUPPORTED = "unsupported"
    """The zone does not have that type."""
    RESERVATION = "reservation"
    """Used up, not begun, or not there."""
    QUOTA = "quota"
    NETWORK = "network"
    """The subnet has no free address."""
    PLACEMENT = "placement"
    """The placement group takes no more machines."""
    THROTTLED = "throttled"
    """Too many calls."""
    CONFIG = "config"
    """A permission, image or parameter is wrong: it is refused until somebody changes it."""
    AUTH = "auth"
    """Who we are is not believed: credentials expired or wrong."""
    TRANSIENT = "transient"
    """The provider has trouble of its own."""
    UNKNOWN = "unknown"
    BOOT = "boot"
    """Quarantine: machines do not come up."""
    TAKEN_BACK = "taken_back"
    """Nothing was refused: a machine of that offer is interrupted, and others are bought first."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Nobody knows what exists there: nothing is launched, and nothing is believed gone."""

    said: str
    """What the provider answered instead of a list."""
    kind: BlockKind | None = None
    """None: it was not asked yet."""


@dataclass(frozen=True, slots=True)
class Backoff:
    first_s: float
    factor: float
    cap_s: float

    def after(self, last_s: float) -> float:
        return min(self.cap_s, last_s * self.factor) if last_s else self.first_s


def _fixed(wait_s: float) -> Backoff:
    return Backoff(wait_s, 1.0, wait_s)


BACKOFFS: Mapping[BlockKind, Backoff] = {
    BlockKind.CAPACITY: Backoff(120.0, 1.5, 1200.0),
    BlockKind.UNSUPPORTED: _fixed(86_400.0),
    BlockKind.RESERVATION: Backoff(60.0, 2.0, 600.0),
    BlockKind.QUOTA: Backoff(600.0, 1.5, 3600.0),
    BlockKind.NETWORK: _fixed(600.0),
    BlockKind.PLACEMENT: _fixed(600.0),
    BlockKind.THROTTLED: Backoff(1.0, 2.0, 60.0),
    BlockKind.CONFIG: _fixed(inf),
    BlockKind.AUTH: _fixed(60.0),
    BlockKind.TRANSIENT: Backoff(1.0, 2.0, 30.0),
    BlockKind.UNKNOWN: _fixed(120.0),
    BlockKind.BOOT: _fixed(1800.0),
    BlockKind.TAKEN_BACK: _fixed(120.0),
}


def scope_of(kind: BlockKind, offer: Offer) -> Scope:
    """What a refusal of `offer` is true for, unless the provider said more."""
    key = offer.key
    match kind:
        case BlockKind.CAPACITY | BlockKind.UNKNOWN | BlockKind.TRANSIENT | BlockKind.TAKEN_BACK:
            return Scope.of(key)
        case BlockKind.UNSUPPORTED:
            return Scope(
                provider=key.provider,
                region=key.region,
                zone=key.zone,
                instance_type=key.instance_type,
            )
        case BlockKind.RESERVATION:
            return Scope(provider=key.provider, reservation=key.reservation)
        case BlockKind.QUOTA:
            # Without a family nothing says which other types are counted together with this one.
            return Scope(
                provider=key.provider,
                region=key.region,
                family=offer.family or None,
                instance_type=None if offer.family else key.instance_type,
                market=key.market,
            )
        case BlockKind.NETWORK:
            return Scope(provider=key.provider, region=key.region, zone=key.zone)
        case BlockKind.PLACEMENT:
            return Scope(provider=key.provider, placement=key.placement)
        case BlockKind.THROTTLED:
            return Scope(provider=key.provider, region=key.region)
        case BlockKind.CONFIG | BlockKind.AUTH:
            return Scope(provider=key.provider)
        case BlockKind.BOOT:
            return Scope(
                provider=key.provider,
                instance_type=key.instance_type,
                image=offer.image,
                market=key.market,
                stopped=key.stopped or None,
            )
