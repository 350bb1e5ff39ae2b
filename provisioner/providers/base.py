"""What every source of machines can do. Calls that can be repeated safely.

`tests/contract/test_contract_provider.py` says what they mean; every provider passes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from provisioner.types import Offer, OfferKey, Scope


class FoundState(StrEnum):
    PENDING = "pending"
    """The provider is still making it."""
    RUNNING = "running"
    """It exists and is billed; one that is being ended still counts as running until it is certainly gone."""
    ENDED = "ended"
    """Certainly gone. A provider may leave such instances out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchIntent:
    """One launch: `count` machines of one offer, all or none."""

    intent_id: str
    token: str
    """Calls with the same token answer with the same machines."""
    cluster_id: str
    pool: str
    generation: int
    offer: Offer
    count: int
    created_at: float = 0.0
    """When it was decided: the same in every repetition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    instance_ids: tuple[str, ...]
    """In the order of the group. The agent of a machine uses the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInstance:
    """One machine that carries our cluster's tag, as the provider knows it; everything but `state` comes from tags."""

    instance_id: str
    state: FoundState
    cluster_id: str
    pool: str
    intent_id: str
    generation: int
    created_at: float
    offer_key: OfferKey
    slots: int | None = None
    """As its tags say; None: they do not."""
    usd_per_hour: float | None = None
    """As its tags say; None: they do not."""
    started_at: float | None = None
    """When its bill began, where the provider says so."""
    leaves_at: float | None = None
    """The provider has announced that it takes the machine back then (spot notice, maintenance)."""
    leaves_because: str = ""
    detail: str = ""
    """For ENDED: why, or the last thing its console said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What exists at a provider with our cluster's tag."""

    instances: tuple[FoundInstance, ...] = ()
    unseen: Mapping[Scope, str] = field(default_factory=dict)
    """What could not be listed (a zone that does not answer), and why: unknown, not empty."""


class Provider(Protocol):
    """A source of machines: one account in one region, or one site. Pools may buy from several, and share one."""

    @property
    def name(self) -> str:
        """Unique in the cluster; `OfferKey.provider` of all that it sells."""
        ...

    @property
    def list_every_s(self) -> float:
        """How often it may be asked for its list."""
        ...

    @property
    def list_grace_s(self) -> float:
        """How long after its launch a living machine may be missing from `list`."""
        ...

    def offers(self, pool: str) -> Sequence[Offer] | None:
        """What that pool may buy, whether or not there is any now. Asked in every pass: never blocks.

        A machine of an offer that is not among them any more is drained and ended. None: not known yet.
        """
        ...

    async def open(self) -> None:
        """Called until it succeeds, before any other call that waits. Raises what is wrong (credentials, network)."""
        ...

    async def run(self) -> None:
        """Work in the background, after `open`, until cancelled; called again if it fails. May return at once."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads. Machines stay."""
        ...

    async def launch(self, intent: LaunchIntent) -> LaunchResult:
        """All machines or none, tagged in the same call.

        `CapacityError`, `QuotaError`, `ProviderAuthError` and `ProviderError` mean that nothing was made.
        `TimeoutError` and `OSError` mean that nobody knows: the call is made again with the same token.
        """
        ...

    async def list(self) -> Inventory:
        """Every machine with our cluster's tag. Raises when nothing can be said about any."""
        ...

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """End them. Returns when the provider has agreed; unknown ids are a success."""
        ...
