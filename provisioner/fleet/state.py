"""What the provisioner knows, and the events that change it, as frozen data."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from master.core.scheduler.types import Running
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, Unseen
from provisioner.fleet.instances import BootNote, InstanceRecord
from provisioner.fleet.intents import IntentRecord
from provisioner.images.records import BakeRecord
from provisioner.journal.records import Decision
from provisioner.money.prices import SpendLedger
from provisioner.providers.base import Accepted, Inventory
from provisioner.providers.images import ImageAnswer
from provisioner.types import Node, Offer, OfferKey, PoolSettings, Scope

LIST_GRACE_S = 60.0
"""Of a provider that is not configured any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSetup:
    """What one pool is made of, at the instant of one pass."""

    settings: PoolSettings
    offers: tuple[Offer, ...] = ()
    """Of all its providers."""
    undecided: frozenset[str] = frozenset()
    """Providers that do not know yet what they sell to it."""
    fingerprints: Mapping[OfferKey, str] = field(default_factory=dict)
    """Of what a launch would be made of now, where drift counts."""
    running: tuple[Running, ...] = ()
    """What runs in it, where machines that work may be disrupted."""

    def offer(self, key: OfferKey) -> Offer | None:
        return next((offer for offer in self.offers if offer.key == key), None)


class Retired:
    """Which pools and offers are not configured any more. Machines of them get no work, and end when they are free."""

    def __init__(
        self, sold: Mapping[str, Collection[OfferKey]], undecided: Mapping[str, Collection[str]]
    ) -> None:
        self._sold = sold
        self._undecided = undecided

    def because(self, pool: str, key: OfferKey) -> str | None:
        sold = self._sold.get(pool)
        if sold is None:
            return f"pool {pool} is not configured any more"
        if key in sold or key.provider in self._undecided[pool]:
            return None
        name = key.instance_type or "this type of machine"
        return f"pool {pool} does not buy {name} from {key.provider} any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCatalogue:
    """What is configured and what is for sale, at the instant of one pass."""

    pools: Mapping[str, PoolSetup]
    list_grace_s: Mapping[str, float] = field(default_factory=dict)
    """Provider -> how long a young machine may be missing from its lists."""

    def knows(self, provider: str) -> bool:
        """It is configured."""
        return provider in self.list_grace_s

    def grace_of(self, provider: str) -> float:
        return self.list_grace_s.get(provider, LIST_GRACE_S)

    def retired(self) -> Retired:
        """What is not configured any more, looked up quickly."""
        return Retired(
            {
                pool: frozenset(offer.key for offer in setup.offers)
                for pool, setup in self.pools.items()
            },
            {pool: setup.undecided for pool, setup in self.pools.items()},
        )

    def dearest_usd(self, slots: int) -> float:
        """For a machine whose price nobody knows: never 0 if anything of its size has a price."""
        prices = {offer.slots: 0.0 for setup in self.pools.values() for offer in setup.offers}
        for setup in self.pools.values():
            for offer in setup.offers:
                prices[offer.slots] = max(prices[offer.slots], offer.usd_per_hour)
        return prices.get(slots, max(prices.values(), default=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """Everything the provisioner knows. Replaced as a whole, after its changes are committed."""

    cluster_id: str
    generation: int
    watching_since: float = 0.0
    """When this master began to look. What went on before, boots above all, nobody timed."""
    intents: Mapping[str, IntentRecord] = field(default_factory=dict)
    instances: Mapping[str, InstanceRecord] = field(default_factory=dict)
    bakes: Mapping[str, BakeRecord] = field(default_factory=dict)
    """Those that are under way, and the newest that are over."""
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    """Entries of the journal that may still change, by id."""
    memory: CapacityMemory = field(default_factory=CapacityMemory)
    ledger: SpendLedger = field(default_factory=SpendLedger)
    ended_lost: tuple[float, ...] = ()
    """When instances were ended as lost, within the last window."""
    unseen: Mapping[Scope, Unseen] = field(default_factory=dict)
    """What could not be listed, and why."""
    stages: Mapping[str, str] = field(default_factory=dict)
    """How far the boots of instances are, as the last list of their provider said."""
    retired: Mapping[str, str] = field(default_factory=dict)
    """Instances whose pool or type is not configured any more, and which of them it is: no capacity for anything."""
    frozen: str = ""
    """Set while so many agents are silent that the fault is likelier ours: lost machines are kept."""
    closing: bool = False
    """Nothing more is launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderListing:
    """A list of one provider. `found` None: it failed, which says nothing about what exists."""

    provider: str
    started_at: float
    found: Inventory | None
    error: str = ""
    kind: BlockKind = BlockKind.TRANSIENT
    """Of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    intent: IntentRecord
    instance_ids: tuple[str, ...]
    started_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAccepted:
    """The provider has it, and delivers later."""

    intent: IntentRecord
    accepted: Accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRefused:
    """How a provider refused."""

    kind: BlockKind
    message: str
    """What the provider said, verbatim."""
    scope: Scope | None = None
    """What it is true for; None: what is usual for the kind."""
    quota: str = ""
    number: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRefused(CallRefused):
    """Nothing was made."""

    intent: IntentRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchUnanswered:
    """Nobody knows whether something was made."""

    intent: IntentRecord
    message: str
    kind: BlockKind = BlockKind.TRANSIENT
    nothing_made: bool = False
    """That much is known: it is only asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIsSpent:
    """The provider does not take the token of this launch any more."""

    intent: IntentRecord
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAnswered:
    intent: IntentRecord
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswered:
    """`error`: the machine runs on, or (not `refused`) nobody knows."""

    instance_id: str
    error: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAnswered:
    """The provider lets the machine run, or not (`refusal`), or nobody knows (`error`)."""

    instance_id: str
    refusal: CallRefused | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateAnswered:
    instance_ids: tuple[str, ...]
    error: str | None = None
    consoles: Mapping[str, str] = field(default_factory=dict)
    """Instance -> what it wrote last, of those that were asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAcknowledged:
    """The host took note that the machine is gone."""

    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryAgain:
    """Somebody asks to forget what keeps this from being bought."""

    scope: Scope
    committed: asyncio.Event = field(default_factory=asyncio.Event, compare=False)
    """Set once that is written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeAsked:
    bake: BakeRecord
    committed: asyncio.Event = field(default_factory=asyncio.Event, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeInstalled:
    """The machine of a bake says that it has all."""

    instance_id: str
    committed: asyncio.Event = field(default_factory=asyncio.Event, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeCancelled:
    bake_id: str
    why: str
    committed: asyncio.Event = field(default_factory=asyncio.Event, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAnswered:
    """How far the image of a bake is. `answer` None: nobody knows, or, if it is final, there will be none."""

    bake_id: str
    answer: ImageAnswer | None = None
    error: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRemoved:
    bake_id: str
    nothing_left: bool
    error: str = ""
    """Why it cannot be removed now."""


Said: TypeAlias = TryAgain | BakeAsked | BakeInstalled | BakeCancelled
"""By somebody who waits until it is committed."""
Event: TypeAlias = (
    ProviderListing
    | Launched
    | LaunchAccepted
    | LaunchRefused
    | LaunchUnanswered
    | TokenIsSpent
    | CancelAnswered
    | StopAnswered
    | StartAnswered
    | TerminateAnswered
    | EndAcknowledged
    | Said
    | ImageAnswered
    | ImageRemoved
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """What the host shows of agents at one instant."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    connected: frozenset[str] = frozenset()
    """Agents that were announced and may not be nodes yet."""
    boots: Mapping[str, BootNote] = field(default_factory=dict)
    """What machines said that have no agent yet."""

    def is_connected(self, agent_id: str) -> bool:
        node = self.nodes.get(agent_id)
        return node.connected if node is not None else agent_id in self.connected

    def is_busy(self, agent_id: str) -> bool | None:
        node = self.nodes.get(agent_id)
        return None if node is None else node.busy
