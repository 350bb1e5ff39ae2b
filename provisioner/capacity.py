"""What past calls taught us about each offer: stock-outs, refusals, boot times, boots that never came.

Shared by all pools, keyed by offer, persisted. A block is forgotten only by a success of that same key: the success
of another zone says nothing about this one. When a block ends, one launch at a time probes the offer until one
succeeds, so that five hundred waiting gangs do not become five hundred failing calls.

The waits (2 minutes, times 1.5, up to 20 minutes) were measured on spot traces: a longer cap costs real waiting,
a shorter first wait costs failing calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from provisioner.types import Offer, OfferKey
from windlass.base.strict_json import StrictJson

QUARANTINE_AFTER = 3
"""Boots that fail in a row before the offer is quarantined."""
BOOT_DEADLINE_FACTOR = 3.0
EWMA_WEIGHT = 0.2
MAD_TO_P90 = 1.6
"""Mean absolute deviations between the mean and the 90th percentile of a normal distribution."""
PRIOR_DEVIATION = 0.25
"""How far off, as a share, an offer's own boot estimate is believed to be before anything was learned."""


class BlockKind(StrEnum):
    CAPACITY = "capacity"
    QUOTA = "quota"
    AUTH = "auth"
    UNKNOWN = "unknown"
    BOOT = "boot"
    """Quarantine: its instances do not come up."""


@dataclass(frozen=True, slots=True)
class Backoff:
    first_s: float
    factor: float
    cap_s: float

    def after(self, last_s: float) -> float:
        return min(self.cap_s, last_s * self.factor) if last_s else self.first_s


BACKOFFS: Mapping[BlockKind, Backoff] = {
    BlockKind.CAPACITY: Backoff(120.0, 1.5, 1200.0),
    BlockKind.QUOTA: Backoff(600.0, 1.5, 3600.0),
    BlockKind.AUTH: Backoff(60.0, 1.5, 1200.0),
    BlockKind.UNKNOWN: Backoff(120.0, 1.0, 120.0),
    BlockKind.BOOT: Backoff(1800.0, 1.0, 1800.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferMemory:
    """What is known about one offer."""

    kind: BlockKind | None = None
    """Why it was blocked last; None after a success."""
    message: str = ""
    """What the provider said, verbatim."""
    blocked_until: float = 0.0
    backoff_s: float = 0.0
    failed_boots: int = 0
    """In a row."""
    boot_mean_s: float | None = None
    boot_deviation_s: float = 0.0

    def is_blocked(self, now: float) -> bool:
        return now < self.blocked_until

    @property
    def needs_launch_probe(self) -> bool:
        """It was refused and nothing has succeeded since: one call at a time."""
        return self.kind is not None

    @property
    def needs_boot_probe(self) -> bool:
        """It was quarantined and nothing has come up since: one booting instance at a time."""
        return self.failed_boots >= QUARANTINE_AFTER


_UNKNOWN_OFFER = OfferMemory()


@dataclass(frozen=True, slots=True)
class CapacityMemory:
    """Immutable: every lesson makes a new memory, so that a failed commit forgets nothing and learns nothing."""

    offers: Mapping[OfferKey, OfferMemory] = field(default_factory=dict)

    def of(self, key: OfferKey) -> OfferMemory:
        return self.offers.get(key, _UNKNOWN_OFFER)

    def refused(
        self, key: OfferKey, kind: BlockKind, message: str, *, now: float
    ) -> CapacityMemory:
        """A launch was refused. Answers to calls that were already under way do not lengthen a block."""
        old = self.of(key)
        if old.is_blocked(now) and old.kind is kind:
            return self._with(key, replace(old, message=message))
        wait = BACKOFFS[kind].after(old.backoff_s if old.kind is kind else 0.0)
        return self._with(
            key,
            replace(
                old,
                kind=kind,
                message=message,
                backoff_s=wait,
                blocked_until=max(old.blocked_until, now + wait),
            ),
        )

    def launched(self, key: OfferKey) -> CapacityMemory:
        """A launch succeeded: the offer has capacity. A quarantine is only ended by a boot."""
        old = self.of(key)
        if old.kind is None or old.kind is BlockKind.BOOT:
            return self
        return self._with(
            key, replace(old, kind=None, message="", backoff_s=0.0, blocked_until=0.0)
        )

    def booted(self, offer: Offer, took_s: float) -> CapacityMemory:
        """An agent came up `took_s` seconds after the call."""
        old = self.of(offer.key)
        mean, deviation = self._boot_stats(offer)
        error = took_s - mean
        learned = replace(
            old,
            failed_boots=0,
            boot_mean_s=mean + EWMA_WEIGHT * error,
            boot_deviation_s=deviation + EWMA_WEIGHT * (abs(error) - deviation),
        )
        if old.kind is BlockKind.BOOT:
            learned = replace(learned, kind=None, message="", backoff_s=0.0, blocked_until=0.0)
        return self._with(offer.key, learned)

    def boot_failed(self, key: OfferKey, message: str, *, now: float) -> CapacityMemory:
        """An instance never became an agent. The third in a row quarantines the offer."""
        old = self.of(key)
        counted = self._with(key, replace(old, failed_boots=old.failed_boots + 1))
        if old.failed_boots + 1 < QUARANTINE_AFTER:
            return counted
        return counted.refused(key, BlockKind.BOOT, message, now=now)

    def boot_p50_s(self, offer: Offer) -> float:
        return self._boot_stats(offer)[0]

    def boot_p90_s(self, offer: Offer) -> float:
        mean, deviation = self._boot_stats(offer)
        return mean + MAD_TO_P90 * deviation

    def boot_deadline_s(self, offer: Offer) -> float:
        return max(offer.boot_deadline_s, BOOT_DEADLINE_FACTOR * self.boot_p90_s(offer))

    def to_document(self) -> list[dict[str, Any]]:
        return [
            {"key": _KEYS.dump(key), **_MEMORY.dump(entry)} for key, entry in self.offers.items()
        ]

    @classmethod
    def from_document(cls, document: list[dict[str, Any]]) -> CapacityMemory:
        what = "the memory of an offer"
        return cls(
            {
                _KEYS.load(entry["key"], what): _MEMORY.load(
                    {name: value for name, value in entry.items() if name != "key"}, what
                )
                for entry in document
            }
        )

    def _boot_stats(self, offer: Offer) -> tuple[float, float]:
        known = self.of(offer.key)
        if known.boot_mean_s is None:
            return offer.boot_s, offer.boot_s * PRIOR_DEVIATION
        return known.boot_mean_s, known.boot_deviation_s

    def _with(self, key: OfferKey, entry: OfferMemory) -> CapacityMemory:
        return CapacityMemory({**self.offers, key: entry})


_KEYS: StrictJson[OfferKey] = StrictJson(OfferKey)
_MEMORY: StrictJson[OfferMemory] = StrictJson(OfferMemory)
