"""What every source of machines can do. Four calls that can be repeated safely.

`tests/contract/test_contract_provider.py` says what they mean; every provider passes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from provisioner.types import Offer, OfferKey


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
    leaves_at: float | None = None
    """The provider has announced that it takes the machine back then (spot notice, maintenance)."""
    leaves_because: str = ""
    detail: str = ""
    """For ENDED: why, or the last thing its console said."""


class Provider(Protocol):
    """A source of machines for one pool, or one account shared by several."""

    @property
    def name(self) -> str: ...

    @property
    def list_grace_s(self) -> float:
        """How long after its launch a living machine may be missing from `list`."""
        ...

    def offers(self) -> Sequence[Offer]:
        """What can be bought. Never blocks."""
        ...

    async def launch(self, intent: LaunchIntent) -> LaunchResult:
        """All machines or none, tagged in the same call.

        `CapacityError`, `QuotaError`, `ProviderAuthError` and `ProviderError` mean that nothing was made.
        `TimeoutError` and `OSError` mean that nobody knows: the call is made again with the same token.
        """
        ...

    async def list(self) -> Sequence[FoundInstance]:
        """Every machine with our cluster's tag. Raises when it cannot see all of them: a partial list is no list."""
        ...

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """End them. Returns when the provider has agreed; unknown ids are a success."""
        ...
