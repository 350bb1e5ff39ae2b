"""What past calls taught us: refusals and what they are true for, boot times, boots that never came.

Shared by all pools and persisted, one row per key. A key is a `Scope`: an offer is blocked while any scope that covers
it is. A block is forgotten when an offer that it covers is launched, or by hand, never because something else went
well: the success of another zone says nothing about this one. When a block ends, one launch at a time probes what it
covers until one succeeds, so that five hundred waiting gangs do not become five hundred failing calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from provisioner.capacity.refusals import BACKOFFS, BlockKind, scope_of
from provisioner.types import Offer, Scope

QUARANTINE_AFTER = 3
"""Boots that fail in a row before their type and image are quarantined."""
BOOT_DEADLINE_FACTOR = 3.0
EWMA_WEIGHT = 0.2
MAD_TO_P90 = 1.6
"""Mean absolute deviations between the mean and the 90th percentile of a normal distribution."""
PRIOR_DEVIATION = 0.25
"""How far off, as a share, an offer's own boot estimate is believed to be before anything was learned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A refusal, and when what it is true for is tried again."""

    scope: Scope
    kind: BlockKind
    message: str
    """What the provider said, verbatim."""
    until: float
    """In the past: the next launch is a probe."""
    backoff_s: float = 0.0
    quota: str = ""
    """The name of the quota that is used up."""
    number: float | None = None
    """The limit that it sets."""

    def is_shut(self, now: float) -> bool:
        return now < self.until

    @property
    def is_persistent(self) -> bool:
        """A wrong configuration is looked at anew after a restart: it may have been corrected."""
        return self.until < inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Boots:
    """How machines come up: of one type, image and market; failures also of each zone."""

    failed: int = 0
    """In a row."""
    said: str = ""
    """How the last of them failed."""
    mean_s: float | None = None
    deviation_s: float = 0.0


_NO_BOOTS = Boots()


@dataclass(frozen=True, slots=True)
class CapacityMemory:
    """Immutable: every lesson makes a new memory, so that a failed commit forgets nothing and learns nothing."""

    blocks: Mapping[Scope, Block] = field(default_factory=dict)
    boots: Mapping[Scope, Boots] = field(default_factory=dict)
    _parts: frozenset[tuple[str, ...]] = field(init=False, repr=False, compare=False)
    """Which parts of a scope the blocks give: few combinations, so an offer is looked up once for each."""

    _boot_times: dict[int, tuple[Offer, tuple[float, float]]] = field(
        init=False, repr=False, compare=False
    )
    """Of offers that were asked for, by their identity: thousands of machines share few."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parts", frozenset(map(_given_parts, self.blocks)))
        object.__setattr__(self, "_boot_times", {})

    def covering(self, offer: Offer) -> Iterator[Block]:
        """Every block that the offer falls under, shut or waiting for a probe."""
        for parts in self._parts:
            block = self.blocks.get(_projected(offer, parts))
            if block is not None:
                yield block

    def of(self, offer: Offer) -> Block | None:
        """The block that keeps the offer shut longest; of equal ones that with the widest scope."""
        return max(
            self.covering(offer),
            key=lambda block: (block.until, -len(_given_parts(block.scope)), block.kind),
            default=None,
        )

    def is_shut(self, offer: Offer, now: float) -> bool:
        return any(block.is_shut(now) for block in self.covering(offer))

    def refused(
        self,
        scope: Scope,
        kind: BlockKind,
        message: str,
        *,
        now: float,
        quota: str = "",
        number: float | None = None,
        until: float | None = None,
    ) -> CapacityMemory:
        """A launch was refused for everything in `scope`. `until`: the provider said when that ends.

        Answers to calls that were already under way do not lengthen a block.
        """
        old = self.blocks.get(scope)
        if old is not None and old.is_shut(now) and old.kind is kind and until is None:
            news = replace(old, message=message, quota=quota, number=number)
            return self._with_block(news)
        again = old is not None and old.kind is kind
        wait = BACKOFFS[kind].after(old.backoff_s if old is not None and again else 0.0)
        ends = now + wait if until is None else until
        return self._with_block(
            Block(
                scope=scope,
                kind=kind,
                message=message,
                until=ends if old is None else max(old.until, ends),
                backoff_s=wait,
                quota=quota,
                number=number,
            )
        )

    def launched(self, offer: Offer) -> CapacityMemory:
        """A launch succeeded: whatever covers the offer is not true any more. A quarantine is only ended by a boot."""
        proven_wrong = {b.scope for b in self.covering(offer) if b.kind is not BlockKind.BOOT}
        return self._without(proven_wrong)

    def cleared(self, scope: Scope) -> CapacityMemory:
        """Somebody says: try again now. Forgets every block and quarantine that an offer in `scope` may fall under."""
        boots = {
            key: replace(known, failed=0, said="")
            if known.failed and _overlap(key, scope)
            else known
            for key, known in self.boots.items()
        }
        return replace(self, boots=boots)._without({b for b in self.blocks if _overlap(b, scope)})

    def booted(self, offer: Offer, took_s: float) -> CapacityMemory:
        """An agent came up `took_s` seconds after the call."""
        mean, deviation = self._boot_stats(offer)
        error = took_s - mean
        learned = Boots(
            mean_s=mean + EWMA_WEIGHT * error,
            deviation_s=deviation + EWMA_WEIGHT * (abs(error) - deviation),
        )
        wide, here = scope_of(BlockKind.BOOT, offer), _boots_here(offer)
        boots = {scope: known for scope, known in self.boots.items() if scope != here}
        ended = {b.scope for b in self.covering(offer) if b.kind is BlockKind.BOOT}
        return replace(self, boots={**boots, wide: learned})._without(ended)

    def boot_failed(self, offer: Offer, message: str, *, now: float) -> CapacityMemory:
        """A machine never became an agent. The third in a row quarantines the offer.

        If some of the three failed in another zone, the fault is not the zone's: type and image are quarantined.
        """
        memory, failed = self, {}
        for scope in (_boots_here(offer), scope_of(BlockKind.BOOT, offer)):
            known = self.boots.get(scope, _NO_BOOTS)
            failed[scope] = known.failed + 1
            memory = memory._with_boots(
                scope, replace(known, failed=known.failed + 1, said=message)
            )
        (here, failed_here), (wide, failed_anywhere) = failed.items()
        if failed_here >= QUARANTINE_AFTER:
            memory = memory.refused(here, BlockKind.BOOT, message, now=now)
        if failed_anywhere >= QUARANTINE_AFTER and failed_anywhere > failed_here:
            memory = memory.refused(wide, BlockKind.BOOT, message, now=now)
        return memory

    def boot_said(self, offer: Offer, before: str, message: str) -> CapacityMemory:
        """More is known of a failed boot than what was noted `before`."""
        memory = self
        for scope in (_boots_here(offer), scope_of(BlockKind.BOOT, offer)):
            known, block = memory.boots.get(scope), memory.blocks.get(scope)
            if known is not None and known.said == before:
                memory = memory._with_boots(scope, replace(known, said=message))
            if block is not None and block.message == before:
                memory = memory._with_block(replace(block, message=message))
        return memory

    def last_failed_boot(self, offer: Offer) -> str:
        """How the last machine of its type and image failed to become an agent; empty: none did since one has."""
        return self.boots.get(scope_of(BlockKind.BOOT, offer), _NO_BOOTS).said

    def boot_p50_s(self, offer: Offer) -> float:
        return self._boot_stats(offer)[0]

    def boot_p90_s(self, offer: Offer) -> float:
        mean, deviation = self._boot_stats(offer)
        return mean + MAD_TO_P90 * deviation

    def boot_deadline_s(self, offer: Offer) -> float:
        return max(offer.boot_deadline_s, BOOT_DEADLINE_FACTOR * self.boot_p90_s(offer))

    def _boot_stats(self, offer: Offer) -> tuple[float, float]:
        found = self._boot_times.get(id(offer))
        if found is None:
            known = self.boots.get(scope_of(BlockKind.BOOT, offer), _NO_BOOTS)
            stats = offer.boot_s, offer.boot_s * PRIOR_DEVIATION
            if known.mean_s is not None:
                stats = known.mean_s, known.deviation_s
            found = self._boot_times[id(offer)] = offer, stats  # kept, so that its id stays its own
        return found[1]

    def _with_block(self, block: Block) -> CapacityMemory:
        return replace(self, blocks={**self.blocks, block.scope: block})

    def _with_boots(self, scope: Scope, boots: Boots) -> CapacityMemory:
        return replace(self, boots={**self.boots, scope: boots})

    def _without(self, scopes: set[Scope]) -> CapacityMemory:
        if not scopes:
            return self
        return replace(self, blocks={k: b for k, b in self.blocks.items() if k not in scopes})


def _boots_here(offer: Offer) -> Scope:
    """What failed boots are counted by, beside their type and image in all zones."""
    return replace(Scope.of(offer.key), image=offer.image)


_OPTIONAL_PARTS = (
    "region",
    "family",
    "instance_type",
    "zone",
    "market",
    "reservation",
    "placement",
    "image",
    "stopped",
)
_OF_OFFER = frozenset({"family", "image"})
"""Parts of a scope that an offer says beside its key."""


def _given_parts(scope: Scope) -> tuple[str, ...]:
    return tuple(part for part in _OPTIONAL_PARTS if getattr(scope, part) is not None)


def _projected(offer: Offer, parts: tuple[str, ...]) -> Scope:
    """The one scope that gives exactly these parts and covers the offer."""
    given = {part: getattr(offer if part in _OF_OFFER else offer.key, part) for part in parts}
    return Scope(provider=offer.key.provider, **given)


def _overlap(one: Scope, other: Scope) -> bool:
    """Whether one offer could fall under both."""
    return one.provider == other.provider and all(
        None in (mine := getattr(one, part), yours := getattr(other, part)) or mine == yours
        for part in _OPTIONAL_PARTS
    )
