"""A provider made of nothing, with every fault that real ones have. For tests and simulations.

Machines are entries in a dictionary; time is the injected clock. The plain methods (`launch_now`, `list_now`,
`terminate_now`, `boot_due`) are the provider; the async ones add hanging calls and boot timers of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from provisioner.capacity.refusals import BlockKind
from provisioner.money.prices import usd_for
from provisioner.planning.scale_down.stop_value import START_SHARE
from provisioner.providers.base import (
    Accepted,
    FoundGroup,
    FoundInstance,
    FoundState,
    Inventory,
    LaunchAnswer,
    LaunchIntent,
    LaunchResult,
    LimitedCall,
    Rate,
)
from provisioner.providers.errors import Refusal, TokenSpent
from provisioner.types import Offer, OfferKey, Scope
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError, ProviderError
from windlass.base.formats.json_types import JsonMapping


@dataclass(slots=True)
class Faults:
    """What goes wrong, changed by tests at any time."""

    queue_s: dict[OfferKey, float] = field(default_factory=dict)
    """Launches of these are accepted, and delivered so much later."""
    throttle: dict[LimitedCall, int] = field(default_factory=dict)
    """So many calls are answered with "too many calls"."""
    spent_tokens: int = 0
    """So many launches are answered with "this token launches nothing any more"."""
    cancel_failures: int = 0
    stock_out: set[OfferKey] = field(default_factory=set)
    stock: dict[OfferKey, int] = field(default_factory=dict)
    """So many more machines of these can be had."""
    refuse: dict[OfferKey, Exception] = field(default_factory=dict)
    """Raised instead of launching that offer."""
    lost_replies: int = 0
    """So many launches are carried out and then answered with a time-out."""
    unanswered: int = 0
    """So many launches are not carried out and answered with a time-out."""
    hang: set[str] = field(default_factory=set)
    """Calls ("open", "launch", "list", "terminate") that do not return until cancelled; of "launch reply", only the
    answer is lost on the way.
    """
    slow_s: float = 0.0
    """How long each call takes."""
    list_fails: bool = False
    list_error: Exception | None = None
    """Raised instead of a list."""
    zones_unseen: set[str] = field(default_factory=set)
    """Lists say nothing of these zones."""
    open_fails: Exception | None = None
    lies: bool = False
    """Answers one machine too few, and lists machines that are not its own."""
    hide_young_s: float = 0.0
    """Lists omit machines younger than this."""
    terminate_failures: int = 0
    stop_failures: int = 0
    """So many stops are answered with a time-out, and not carried out."""
    lost_starts: int = 0
    """So many starts are carried out and then answered with a time-out."""
    no_start: dict[OfferKey, Exception] = field(default_factory=dict)
    """Raised instead of starting a stopped machine of that offer."""
    no_stop: Exception | None = None
    """Raised instead of stopping a machine."""
    never_boot: set[OfferKey] = field(default_factory=set)
    dies_at_boot: set[OfferKey] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class SimulatedInstance:
    id: str
    intent: LaunchIntent
    created_at: float
    booted: bool = False
    leaves_at: float | None = None
    """Announced to be taken back then."""
    ended_at: float | None = None
    stops: list[tuple[float, float | None]] = field(default_factory=list)
    """From when until when it was stopped; None: it still is."""

    @property
    def is_stopped(self) -> bool:
        return bool(self.stops) and self.stops[-1][1] is None

    @property
    def boots_since(self) -> float:
        started = self.stops[-1][1] if self.stops else None
        return self.created_at if started is None else started


class SimulatedProvider:
    """Every launch call that succeeds makes its machines at once; they boot `offer.boot_s` later."""

    def __init__(
        self,
        *,
        offers: Sequence[Offer] | Mapping[str, Sequence[Offer]],
        clock: Clock,
        cluster_id: str,
        name: str | None = None,
        list_every_s: float = 2.0,
        list_grace_s: float = 60.0,
        on_boot: Callable[[SimulatedInstance], None] | None = None,
        on_end: Callable[[SimulatedInstance], None] | None = None,
        on_stop: Callable[[SimulatedInstance], None] | None = None,
    ) -> None:
        """`offers`: by pool, or for any pool that asks. The name is by default that in the offers."""
        self.faults = Faults()
        self.instances: dict[str, SimulatedInstance] = {}
        """Everything that ever was."""
        self.calls: list[str] = []
        """Names of the calls that arrived, in order."""
        self.sold = offers
        """Changed by tests while the master runs."""
        self.settings = "v1"
        """What launches are made of beside their intents; changed by tests."""
        self.consoles: dict[str, str] = {}
        """What machines wrote last."""
        self.is_open = False
        self._name = name or next(iter(self._all_offers())).key.provider
        self._clock = clock
        self._cluster_id = cluster_id
        self._list_every_s = list_every_s
        self._list_grace_s = list_grace_s
        self._on_boot = on_boot
        self._on_end = on_end
        self._on_stop = on_stop
        self._tokens: dict[str, LaunchResult] = {}
        self._calls_by_token: dict[str, LaunchIntent] = {}
        self.queue: dict[str, tuple[LaunchIntent, float]] = {}
        """Handle -> what was accepted, and when it is delivered."""
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._numbers = count()

    @property
    def name(self) -> str:
        return self._name

    @property
    def list_grace_s(self) -> float:
        return self._list_grace_s

    @property
    def list_every_s(self) -> float:
        return self._list_every_s

    def offers(self, pool: str) -> Sequence[Offer] | None:
        return self.sold.get(pool, ()) if isinstance(self.sold, Mapping) else self.sold

    def could_offer(self, pool: str) -> Sequence[Offer]:
        """Its offers are known from the start."""
        return ()

    async def open(self) -> None:
        await self._arrive("open")
        if self.faults.open_fails is not None:
            raise self.faults.open_fails
        self.is_open = True

    async def run(self) -> None:
        """Nothing goes on in the background."""

    async def close(self) -> None:
        self.is_open = False

    @property
    def rates(self) -> Mapping[LimitedCall, Rate]:
        return {}

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        return {"settings": self.settings}

    async def answer(self, handle: str) -> LaunchAnswer:
        await self._arrive("answer")
        return self.answer_now(handle)

    async def cancel(self, handle: str) -> None:
        await self._arrive("cancel")
        if self.faults.cancel_failures > 0:
            self.faults.cancel_failures -= 1
            raise ProviderError("cancel failed")
        self.queue.pop(handle, None)
        for instance in list(self.instances.values()):
            if instance.intent.token == handle:
                self.kill(instance.id)

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        await self._arrive("launch")
        answer = self.launch_now(intent)
        if "launch reply" in self.faults.hang:
            await asyncio.Event().wait()
        return answer

    async def list(self) -> Inventory:
        await self._arrive("list")
        unseen = {
            Scope(provider=self._name, zone=zone): "no answer" for zone in self.faults.zones_unseen
        }
        found = [x for x in self.list_now() if x.offer_key.zone not in self.faults.zones_unseen]
        groups = [
            FoundGroup.of(intent, self._accepted(handle), intent.created_at)
            for handle, (intent, _) in self._waiting()
        ]
        return Inventory(instances=tuple(found), groups=tuple(groups), unseen=unseen)

    async def console(self, instance_id: str) -> str:
        await self._arrive("console")
        return self.consoles.get(instance_id, "")

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        await self._arrive("terminate")
        self.terminate_now(instance_ids)

    async def stop(self, instance_id: str) -> None:
        await self._arrive("stop")
        faults = self.faults
        if faults.stop_failures > 0:
            faults.stop_failures -= 1
            raise TimeoutError("no reply")
        if faults.no_stop is not None:
            raise faults.no_stop
        instance = self._living(instance_id)
        if not instance.is_stopped:
            instance.stops.append((self._now(), None))
            instance.booted = False
            if self._on_stop is not None:
                self._on_stop(instance)

    async def start(self, instance_id: str, offer: Offer) -> None:
        await self._arrive("start")
        faults, instance = self.faults, self._living(instance_id)
        if (refusal := faults.no_start.get(instance.intent.offer.key)) is not None:
            raise refusal
        if instance.is_stopped:
            instance.stops[-1] = (instance.stops[-1][0], self._now())
            self._boot_later(START_SHARE * instance.intent.offer.boot_s)
        if faults.lost_starts > 0:
            faults.lost_starts -= 1
            raise TimeoutError("reply lost")

    def _living(self, instance_id: str) -> SimulatedInstance:
        instance = self.instances.get(instance_id)
        if instance is None or instance.ended_at is not None:
            raise ProviderError(f"{instance_id} does not exist")
        return instance

    def drop_timers(self) -> None:
        """Nothing boots any more."""
        for timer in self._timers.values():
            timer.cancel()

    def launch_now(self, intent: LaunchIntent) -> LaunchAnswer:
        faults, key = self.faults, intent.offer.key
        if faults.spent_tokens > 0:
            faults.spent_tokens -= 1
            raise TokenSpent("IdempotentInstanceTerminated")
        if self._calls_by_token.setdefault(intent.token, intent) != intent:
            raise TokenSpent("IdempotentParameterMismatch")
        known = self._tokens.get(intent.token)
        if known is not None:
            return known
        if intent.token in self.queue:
            return self._accepted(intent.token)
        if faults.unanswered > 0:
            faults.unanswered -= 1
            raise TimeoutError("no reply")
        if key in faults.refuse:
            raise faults.refuse[key]
        if key in faults.stock_out:
            raise CapacityError(f"no {key.instance_type or 'machine'} left in {key.zone or 'here'}")
        if intent.count > faults.stock.get(key, intent.count):
            raise CapacityError(f"requested {intent.count}, available {faults.stock[key]}")
        if key in faults.queue_s:
            self.queue[intent.token] = (intent, self._now() + faults.queue_s[key])
            if faults.lost_replies > 0:
                faults.lost_replies -= 1
                raise TimeoutError("reply lost")
            return self._accepted(intent.token)
        if key in faults.stock:
            faults.stock[key] -= intent.count
        result = self._make(intent)
        if faults.lies:
            return LaunchResult(instance_ids=result.instance_ids[:-1])
        if faults.lost_replies > 0:
            faults.lost_replies -= 1
            raise TimeoutError("reply lost")
        return result

    def answer_now(self, handle: str) -> LaunchAnswer:
        known = self._tokens.get(handle)
        if known is not None:
            return known
        if handle not in self.queue:
            raise Refusal(BlockKind.CAPACITY, "the request ended without a machine")
        intent, due = self.queue[handle]
        if intent.offer.key in self.faults.refuse:
            del self.queue[handle]
            raise self.faults.refuse[intent.offer.key]
        if due > self._now():
            return self._accepted(handle)
        del self.queue[handle]
        return self._make(intent)

    def deliver_due(self) -> None:
        """What the provider does by itself, whether or not anybody asks."""
        for handle, (_, due) in self._waiting():
            if due <= self._now():
                self.answer_now(handle)

    def _waiting(self) -> Sequence[tuple[str, tuple[LaunchIntent, float]]]:
        return list(self.queue.items())

    def _accepted(self, handle: str) -> Accepted:
        _, due = self.queue[handle]
        return Accepted(
            handle=handle,
            look_again_s=min(30.0, due - self._now()),
            reason="(Resources)",
            starts_at=due,
        )

    def list_now(self) -> Sequence[FoundInstance]:
        if self.faults.list_fails or self.faults.list_error is not None:
            raise self.faults.list_error or ProviderError("list failed")
        now = self._now()
        for instance in list(self.instances.values()):
            if instance.leaves_at is not None and instance.leaves_at <= now:
                self.kill(instance.id)
        oldest_hidden = now - self.faults.hide_young_s
        listed = [
            _found(instance)
            for instance in self.instances.values()
            if instance.ended_at is None and instance.created_at <= oldest_hidden
        ]
        return [*listed, *map(_foreign, listed)] if self.faults.lies else listed

    def terminate_now(self, instance_ids: Iterable[str]) -> None:
        if self.faults.terminate_failures > 0:
            self.faults.terminate_failures -= 1
            raise ProviderError("terminate failed")
        for instance_id in instance_ids:
            self.kill(instance_id)

    def kill(self, instance_id: str) -> None:
        """The machine ends, by whoever's will. Unknown and ended ones are left alone."""
        instance = self.instances.get(instance_id)
        if instance is None:
            return
        ending = [instance]
        if instance.intent.offer.ends_together:
            ending = [x for x in self.instances.values() if x.intent == instance.intent]
        for each in ending:
            if each.ended_at is None:
                each.ended_at = self._now()
                if self._on_end is not None:
                    self._on_end(each)

    def boot_due(self) -> Sequence[SimulatedInstance]:
        """Boot what is due by the clock: `on_boot` is called for each."""
        now = self._now()
        booted = []
        for instance in list(self.instances.values()):
            offer = instance.intent.offer
            boot_s = offer.boot_s * (START_SHARE if instance.stops else 1.0)
            due = instance.boots_since + boot_s <= now + 1e-6
            out = instance.ended_at is not None or instance.is_stopped
            if instance.booted or out or not due:
                continue
            if offer.key in self.faults.never_boot:
                continue
            if offer.key in self.faults.dies_at_boot:
                self.kill(instance.id)
                continue
            instance.booted = True
            booted.append(instance)
            if self._on_boot is not None:
                self._on_boot(instance)
        return booted

    def living(self) -> Sequence[SimulatedInstance]:
        return [instance for instance in self.instances.values() if instance.ended_at is None]

    def usd(self) -> float:
        """What the bill says."""
        return sum(map(self._usd, self.instances.values()))

    def _usd(self, instance: SimulatedInstance) -> float:
        offer, end = instance.intent.offer, instance.ended_at or self._now()
        off_s = sum((until or end) - since for since, until in instance.stops)
        running = usd_for(offer.usd_per_hour, end - instance.created_at - off_s)
        return running + usd_for(offer.disk_usd_per_hour, off_s)

    def add_stray(self, intent: LaunchIntent) -> Sequence[str]:
        """Machines that carry our tags though nobody of ours called."""
        return self._make(replace(intent, token=f"stray-{len(self.instances)}")).instance_ids

    def _make(self, intent: LaunchIntent) -> LaunchResult:
        ids = tuple(f"{intent.pool}-{intent.token[:8]}-{i}" for i in range(intent.count))
        for instance_id in ids:
            self.instances[instance_id] = SimulatedInstance(
                id=instance_id, intent=intent, created_at=self._now()
            )
        self._tokens[intent.token] = LaunchResult(instance_ids=ids, started_at=self._now())
        self._boot_later(intent.offer.boot_s)
        return self._tokens[intent.token]

    def _boot_later(self, boot_s: float) -> None:
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        self._timers[number] = loop.call_later(boot_s, self._boot_now, number)

    def _boot_now(self, number: int) -> None:
        del self._timers[number]
        self.boot_due()

    def _all_offers(self) -> Iterable[Offer]:
        by_pool = self.sold.values() if isinstance(self.sold, Mapping) else [self.sold]
        return (offer for offers in by_pool for offer in offers)

    async def _arrive(self, call: str) -> None:
        self.calls.append(call)
        await asyncio.sleep(self.faults.slow_s)
        api = LimitedCall(call) if call in {*LimitedCall} else None
        if api is not None and self.faults.throttle.get(api, 0) > 0:
            self.faults.throttle[api] -= 1
            raise Refusal(BlockKind.THROTTLED, "RequestLimitExceeded")
        if call in self.faults.hang:
            await asyncio.Event().wait()

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _foreign(found: FoundInstance) -> FoundInstance:
    """Somebody else's machine, shown as if it were one of ours."""
    key = replace(found.offer_key, provider="somebody-else")
    return replace(found, instance_id=f"not-{found.instance_id}", offer_key=key)


def _found(instance: SimulatedInstance) -> FoundInstance:
    intent = instance.intent
    return FoundInstance(
        instance_id=instance.id,
        state=FoundState.STOPPED if instance.is_stopped else FoundState.RUNNING,
        cluster_id=intent.cluster_id,
        pool=intent.pool,
        intent_id=intent.intent_id,
        generation=intent.generation,
        created_at=instance.created_at,
        started_at=instance.created_at,
        slots=intent.offer.slots,
        usd_per_hour=intent.offer.usd_per_hour,
        leaves_at=instance.leaves_at,
        leaves_because="spot notice" if instance.leaves_at is not None else "",
        offer_key=intent.offer.key,
    )
