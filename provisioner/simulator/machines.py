"""Machines made of nothing, on virtual time: they boot as their offers say, run out of stock, and are taken back."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from provisioner.planning.scale_down.stop_value import START_SHARE
from provisioner.providers.base import (
    AnswersAtOnce,
    FoundInstance,
    FoundState,
    Inventory,
    LaunchIntent,
    LaunchResult,
)
from provisioner.types import Offer, OfferKey
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError

Schedule = Callable[[float, Callable[[], None]], None]
"""(seconds since the beginning, what to do then)."""
LISTED_AFTER_END_S = 600.0
"""A machine that ended stays in lists for so long, as at a cloud."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Offers that are out of stock for a while. What runs goes on."""

    from_s: float
    """Since the beginning of the trace."""
    until_s: float
    instance_type: str = ""
    """Empty: any; so are the others."""
    zone: str = ""
    market: str = ""

    def covers(self, key: OfferKey, at_s: float) -> bool:
        return (
            self.from_s <= at_s < self.until_s
            and self.instance_type in ("", key.instance_type)
            and self.zone in ("", key.zone)
            and self.market in ("", key.market.value)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """What the provider has, and what it takes back."""

    stock: Mapping[OfferKey, int]
    """The most machines of an offer at once; offers that are not in it have no limit."""
    outages: Sequence[Outage] = ()
    notice_s: float = 120.0
    """How long before it is taken back a machine is told."""


@dataclass(slots=True, kw_only=True)
class SimulatedMachine:
    id: str
    intent: LaunchIntent
    created_s: float
    ready_s: float | None = None
    ended_s: float | None = None
    leaves_s: float | None = None
    interrupted: bool = False
    """The provider took it back."""
    busy_s: float = 0.0
    """How long anything ran on it."""
    offs: list[tuple[float, float]] = field(default_factory=list)
    """From when until when it was stopped."""
    stopped_s: float | None = None
    """Since when it is stopped."""
    starting_s: float | None = None
    """Since when it boots again."""
    rebooted_s: float = 0.0
    """How long it has booted again, all in all."""
    listed: FoundInstance | None = None
    """As in the last list; None: something has changed since."""

    @property
    def offer(self) -> Offer:
        return self.intent.offer

    def boots_s(self, end_s: float) -> float:
        """How long it has booted by then."""
        first = (end_s if self.ready_s is None else self.ready_s) - self.created_s
        return (
            first + self.rebooted_s + (0.0 if self.starting_s is None else end_s - self.starting_s)
        )

    def runs(self, end_s: float) -> list[tuple[float, float]]:
        """From when until when it was not stopped, until then."""
        edges = [self.created_s, *(at for off in self.offs for at in off)]
        edges.append(end_s if self.stopped_s is None else self.stopped_s)
        return list(zip(edges[::2], edges[1::2], strict=True))


class SimulatedMachines(AnswersAtOnce):
    """A `Provider`. Times are seconds since the beginning of the trace; `schedule(at_s, what)` is for what is due,
    `by_chance` for what is not played any more when all work is done."""

    list_grace_s = 0.0

    def __init__(
        self,
        *,
        name: str,
        offers: Mapping[str, Sequence[Offer]],
        supply: Supply,
        clock: Clock,
        start: float,
        schedule: Schedule,
        by_chance: Schedule,
        rng: random.Random,
        booted: Callable[[SimulatedMachine], None],
        told: Callable[[], None],
        ended: Callable[[SimulatedMachine], None],
        stopped: Callable[[SimulatedMachine], None],
    ) -> None:
        self.name = name
        self.living: dict[str, SimulatedMachine] = {}
        self.launches = 0
        self.refused = 0
        self.terminations = 0
        self._offers = offers
        self._supply = supply
        self._clock = clock
        self._start = start
        self._schedule = schedule
        self._by_chance = by_chance
        self._rng = rng
        self._booted = booted
        self._told = told
        self._ended = ended
        self._stopped = stopped
        self.starts = 0
        self._has_news = True
        """The next list would show something that the last did not."""
        self._gone: deque[SimulatedMachine] = deque()
        self._tokens: dict[str, LaunchResult] = {}

    @property
    def list_every_s(self) -> float:
        return 0.0 if self._has_news else inf

    def offers(self, pool: str) -> Sequence[Offer]:
        return self._offers.get(pool, ())

    async def launch(self, intent: LaunchIntent) -> LaunchResult:
        known = self._tokens.get(intent.token)
        if known is not None:
            return known
        key, now = intent.offer.key, self._now_s()
        self._take(key, intent.count)
        self.launches += 1
        result = LaunchResult(
            instance_ids=tuple(f"{intent.intent_id[:13]}-{n}" for n in range(intent.count))
        )
        self._tokens = {intent.token: result}  # in virtual time nobody repeats an older one
        for instance_id in result.instance_ids:
            machine = SimulatedMachine(id=instance_id, intent=intent, created_s=now)
            self.living[instance_id], self._has_news = machine, True
            self._schedule(now + intent.offer.boot_s, lambda machine=machine: self._boot(machine))  # type: ignore[misc]
        return result

    async def stop(self, instance_id: str) -> None:
        self.terminations += 1
        machine = self.living[instance_id]
        if machine.stopped_s is None:
            machine.stopped_s = self._now_s()
            self._changed(machine)
            self._stopped(machine)

    async def start(self, instance_id: str, offer: Offer) -> None:
        machine = self.living[instance_id]
        if machine.stopped_s is None:
            return
        self._take(machine.offer.key, 1)
        self.starts += 1
        now = self._now_s()
        machine.offs.append((machine.stopped_s, now))
        machine.stopped_s, machine.starting_s = None, now
        self._changed(machine)
        self._schedule(now + START_SHARE * machine.offer.boot_s, lambda: self._boot(machine))

    def _take(self, key: OfferKey, count: int) -> None:
        """Raises CapacityError."""
        running = [m for m in self.living.values() if m.stopped_s is None and m.offer.key == key]
        most = self._supply.stock.get(key)
        out = any(outage.covers(key, self._now_s()) for outage in self._supply.outages)
        if out or (most is not None and len(running) + count > most):
            self.refused += 1
            raise CapacityError(f"no {key.instance_type or 'machine'} left in {key.zone or 'here'}")

    async def list(self) -> Inventory:
        self._has_news = False
        oldest = self._now_s() - LISTED_AFTER_END_S
        while self._gone and (self._gone[0].ended_s or 0.0) < oldest:
            self._gone.popleft()
        return Inventory(
            instances=tuple(
                self._found(machine) for machine in (*self.living.values(), *self._gone)
            )
        )

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        self.terminations += 1
        for instance_id in instance_ids:
            self._end(instance_id)

    def _boot(self, machine: SimulatedMachine) -> None:
        if machine.ended_s is not None or machine.stopped_s is not None:
            return
        if machine.starting_s is not None:
            machine.rebooted_s += self._now_s() - machine.starting_s
            machine.starting_s = None
            self._booted(machine)
            return
        machine.ready_s = self._now_s()
        rate = machine.offer.interruptions_per_hour
        if rate > 0:
            self._by_chance(
                machine.ready_s + self._rng.expovariate(rate / 3600.0),
                lambda: self._take_back(machine),
            )
        self._booted(machine)

    def _take_back(self, machine: SimulatedMachine) -> None:
        if machine.ended_s is not None:
            return
        machine.leaves_s = self._now_s() + self._supply.notice_s
        machine.interrupted = True
        self._changed(machine)
        self._schedule(machine.leaves_s, lambda: self._end(machine.id))
        self._told()

    def _end(self, instance_id: str) -> None:
        machine = self.living.pop(instance_id, None)
        if machine is not None:
            machine.ended_s = self._now_s()
            self._changed(machine)
            self._gone.append(machine)
            self._ended(machine)

    def _changed(self, machine: SimulatedMachine) -> None:
        machine.listed, self._has_news = None, True

    def _found(self, machine: SimulatedMachine) -> FoundInstance:
        if machine.listed is not None:
            return machine.listed
        intent = machine.intent
        machine.listed = FoundInstance(
            instance_id=machine.id,
            state=_state_of(machine),
            cluster_id=intent.cluster_id,
            pool=intent.pool,
            intent_id=intent.intent_id,
            generation=intent.generation,
            created_at=self._start + machine.created_s,
            offer_key=intent.offer.key,
            leaves_at=None if machine.leaves_s is None else self._start + machine.leaves_s,
            leaves_because="interruption" if machine.leaves_s is not None else "",
            detail="taken back by the provider" if machine.interrupted else "",
        )
        return machine.listed

    def _now_s(self) -> float:
        return self._clock.now().timestamp() - self._start


def _state_of(machine: SimulatedMachine) -> FoundState:
    if machine.ended_s is not None:
        return FoundState.ENDED
    return FoundState.RUNNING if machine.stopped_s is None else FoundState.STOPPED
