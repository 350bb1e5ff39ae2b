"""By what a launch is known to Google: its zone, the names of its machines, and the id of its request. Pure.

All of it follows from the intent, and from each of its machines: a list finds what a lost reply would have named. What
was bought is in it, too, because a refusal may come hours later, and is true for that.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from provisioner.providers.base import LaunchIntent
from provisioner.providers.gcp.names import TOKEN_CHARS, parts_of, quota_family, region_of
from provisioner.types import Market, Offer, OfferKey

LOOK_AGAIN_S = 5.0
_REQUESTS = uuid.UUID("5f0b8a52-6a0e-5d8f-9c6f-2f7a4be1d3c4")
_TEXT = re.compile(
    r"(?P<zone>[a-z0-9-]+)/(?P<base>[a-z0-9-]+)/(?P<count>\d+)/(?P<market>[a-z_]+)/(?P<kind>[^/]+)"
    r"/(?P<reservation>[^/]*)/(?P<placement>[^/]*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchHandle:
    base: str
    """The names of its machines are this and their number."""
    count: int
    key: OfferKey

    @classmethod
    def of(cls, intent: LaunchIntent, prefix: str) -> LaunchHandle:
        base = f"{prefix}{intent.token[:TOKEN_CHARS]}"
        return cls(base=base, count=intent.count, key=intent.offer.key)

    @classmethod
    def read(cls, text: str, provider: str) -> LaunchHandle | None:
        found = _TEXT.fullmatch(text)
        if found is None or found["market"] not in {*Market}:
            return None
        key = OfferKey(
            provider=provider,
            region=region_of(found["zone"]),
            zone=found["zone"],
            instance_type=found["kind"],
            market=Market(found["market"]),
            reservation=found["reservation"],
            placement=found["placement"],
        )
        return cls(base=found["base"], count=int(found["count"]), key=key)

    @property
    def text(self) -> str:
        key = self.key
        what = f"{key.market.value}/{key.instance_type}/{key.reservation}/{key.placement}"
        return f"{key.zone}/{self.base}/{self.count}/{what}"

    @property
    def zone(self) -> str:
        return self.key.zone

    @property
    def request_id(self) -> str:
        return str(uuid.uuid5(_REQUESTS, f"{self.zone}/{self.base}"))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.base}-{number}" for number in range(self.count))

    @property
    def offer(self) -> Offer:
        """As much of it as refusals are about."""
        machine_type, gpu, _ = parts_of(self.key.instance_type)
        family = quota_family(machine_type, gpu)
        return Offer(key=self.key, slots=0, usd_per_hour=0.0, boot_s=0.0, family=family)
