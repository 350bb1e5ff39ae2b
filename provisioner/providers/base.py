"""What every source of machines can do. Calls that can be repeated safely.

`tests/contract/test_contract_provider_*.py` say what they mean; every provider in `tests/contract/providers` passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from provisioner.types import Offer, OfferKey, Scope
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonMapping


class LimitedCall(StrEnum):
    """Calls that providers limit, each by itself."""

    LAUNCH = "launch"
    LIST = "list"
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A token bucket."""

    burst: float
    per_s: float


class FoundState(StrEnum):
    PENDING = "pending"
    """The provider is still making it."""
    RUNNING = "running"
    """It exists and is billed; one that is being ended still counts as running until it is certainly gone."""
    STOPPED = "stopped"
    """It does not run, only its disk is billed, and `start` lets it run again."""
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
    request: JsonMapping = field(default_factory=dict)
    """What `freeze` made of it: the same in every repetition, whatever was configured meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    instance_ids: tuple[str, ...]
    """In the order of the group. The agent of a machine uses the same id."""
    started_at: float | None = None
    """When their bill began, if it was not with the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The provider has the launch, and delivers later: nothing exists yet, and nothing is billed."""

    handle: str
    """By what the provider knows it: the whole group is asked for, listed and cancelled by it."""
    look_again_s: float
    """Ask again after so long. No time of day: the clocks of two machines differ."""
    reason: str = ""
    """Why it has to wait, in the provider's words."""
    starts_at: float | None = None
    """When the provider expects to deliver."""


LaunchAnswer: TypeAlias = LaunchResult | Accepted


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
    ends_at: float | None = None
    """It ends then, as was known when it was launched (a walltime). None: as its offer says."""
    leaves_at: float | None = None
    """The provider has announced that it takes the machine back then (spot notice, maintenance)."""
    leaves_because: str = ""
    detail: str = ""
    """For ENDED: why, or the last thing its console said."""
    stage: str = ""
    """For RUNNING: how far its boot is, as the provider sees it, for people. Empty: it does not know, or it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGroup:
    """One accepted launch that carries our cluster's tag and has not been delivered."""

    cluster_id: str
    pool: str
    intent_id: str
    generation: int
    created_at: float
    offer_key: OfferKey
    count: int
    accepted: Accepted

    @classmethod
    def of(cls, intent: LaunchIntent, accepted: Accepted, created_at: float) -> FoundGroup:
        return cls(
            cluster_id=intent.cluster_id,
            pool=intent.pool,
            intent_id=intent.intent_id,
            generation=intent.generation,
            created_at=created_at,
            offer_key=intent.offer.key,
            count=intent.count,
            accepted=accepted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What exists at a provider with our cluster's tag."""

    instances: tuple[FoundInstance, ...] = ()
    groups: tuple[FoundGroup, ...] = ()
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
    def rates(self) -> Mapping[LimitedCall, Rate]:
        """Below what the provider allows. What has none is only slowed down when the provider says so."""
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

    def could_offer(self, pool: str) -> Sequence[Offer]:
        """While `offers` is not known yet: what the configuration says that pool may buy, for judging requests."""
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

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        """Everything of the call that is not in the intent: settings, image, addresses. No secrets: it is stored.

        Called once, before the intent is committed; `launch` uses what it answered and nothing that may change.
        Raises `Refusal`.
        """
        ...

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        """All machines or none, tagged in the same call.

        `WindlassError` means that nothing was made; `Refusal` says what that is true for. `TokenSpent`: look at the
        list. `TimeoutError` and `OSError` mean that nobody knows: the call is made again with the same token.
        """
        ...

    async def answer(self, handle: str) -> LaunchAnswer:
        """What became of a launch that was accepted. `Refusal`: it came to nothing. Others: ask again."""
        ...

    async def cancel(self, handle: str) -> None:
        """End an accepted launch as a whole, machines that it may have made meanwhile included.

        Returns when the provider has agreed; an unknown handle is a success.
        """
        ...

    async def list(self) -> Inventory:
        """Every machine with our cluster's tag. Raises when nothing can be said about any."""
        ...

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """End them. Returns when the provider has agreed; unknown ids are a success."""
        ...

    async def stop(self, instance_id: str) -> None:
        """Shut it down, and keep its disk. Returns when the provider has agreed; the list says when it has stopped.

        Only asked for machines of offers that `can_stop`. May be repeated. `ProviderError`: it cannot be stopped, and
        runs on. Others: nobody knows.
        """
        ...

    async def start(self, instance_id: str, offer: Offer) -> None:
        """Let a stopped machine run again, as the same machine; one that runs already is a success.

        Returns when the provider has agreed. `WindlassError`: it stays stopped; `Refusal` says what that is true for.
        Others: nobody knows, and the call is made again. `offer`: what such a start is known by in the memory.
        """
        ...

    async def console(self, instance_id: str) -> str:
        """The last that a machine wrote to its console, in one printable line; empty: nothing is known."""
        ...


class CannotStop:
    """For providers whose machines only run or end."""

    async def stop(self, instance_id: str) -> None:
        raise ProviderError(f"{instance_id} cannot be stopped: machines of this provider only end")

    async def start(self, instance_id: str, offer: Offer) -> None:
        raise ProviderError(f"{instance_id} cannot be started: machines of this provider only end")


class AnswersAtOnce:
    """For providers whose launches are answered by the call itself, and that have nothing to open or to limit."""

    @property
    def rates(self) -> Mapping[LimitedCall, Rate]:
        return {}

    def could_offer(self, pool: str) -> Sequence[Offer]:
        """Its offers are known from the start."""
        return ()

    async def open(self) -> None:
        """There is nothing to open."""

    async def run(self) -> None:
        """Nothing goes on in the background."""

    async def close(self) -> None:
        """There is nothing to close."""

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        """The intent has all that a launch is made of."""
        return {}

    async def answer(self, handle: str) -> LaunchAnswer:
        raise ProviderError(f"no launch is called {handle}: they are answered at once")

    async def console(self, instance_id: str) -> str:
        """Its machines have none."""
        return ""

    async def cancel(self, handle: str) -> None:
        """No launch is ever only accepted: there is nothing to cancel."""
