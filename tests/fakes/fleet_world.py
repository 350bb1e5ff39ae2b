"""A small world around the real provisioner: a host with a naive scheduler, a store in memory, a simulated cloud."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from master.core.deadlines import Cause, Deadline
from master.core.reasons import Reason
from master.core.scheduler.types import Request, Running
from provisioner.fleet.reconciler import Provisioner
from provisioner.money.budgets import NO_LIMITS, Money
from provisioner.ports import NOTHING, WrittenDecision
from provisioner.providers.base import LaunchIntent, Provider
from provisioner.types import (
    Gang,
    Market,
    Node,
    Notice,
    Offer,
    OfferKey,
    PoolAvailability,
    PoolDemand,
    PoolSettings,
)
from tests.fakes.simulated_provider import SimulatedInstance, SimulatedProvider
from tests.fakes.virtual_time import LoopClock
from windlass.base.clock import Clock
from windlass.base.errors import StoreUnavailable, WindlassError
from windlass.base.ids import Ids

CLUSTER = "test-cluster"


def an_offer(
    slots: int = 4,
    usd_per_hour: float = 4.0,
    *,
    zone: str = "a",
    name: str | None = None,
    market: Market = Market.ON_DEMAND,
    boot_s: float = 60.0,
    provider: str = "cloud",
    **more: Any,
) -> Offer:
    return Offer(
        key=OfferKey(
            provider=provider, zone=zone, instance_type=name or f"gpu-{slots}", market=market
        ),
        slots=slots,
        usd_per_hour=usd_per_hour,
        boot_s=boot_s,
        **more,
    )


def a_gang(request_id: str, slots: int = 4, *, since: float = 0.0, **more: Any) -> Gang:
    return Gang(
        request_id=request_id,
        job_id=f"job-{request_id}",
        pool="gpu",
        slots=slots,
        since=since,
        **more,
    )


def an_intent(offer: Offer, count: int = 1, *, token: str = "0" * 32, **more: Any) -> LaunchIntent:
    values: dict[str, Any] = {
        "intent_id": f"intent-{token[:8]}",
        "cluster_id": CLUSTER,
        "pool": "gpu",
        "generation": 1,
    }
    return LaunchIntent(token=token, offer=offer, count=count, **(values | more))


@dataclass
class Documents:
    intents: Sequence[tuple[str, dict[str, Any]]]
    instances: Sequence[tuple[str, dict[str, Any]]]
    memory: dict[str, Any] | None
    lessons: Sequence[dict[str, Any]]
    bakes: Sequence[dict[str, Any]] = ()
    decisions: Sequence[dict[str, Any]] = ()


class MemoryFleetStore:
    """A FleetStore whose documents really go through JSON, and whose commits can fail."""

    def __init__(self) -> None:
        self.fails = False
        self.commits = 0
        self.intents: dict[str, str] = {}
        self.instances: dict[str, tuple[bool, str]] = {}
        self.memory: str | None = None
        self.lessons: dict[str, str] = {}
        self.bakes: dict[str, str] = {}
        self.decisions: dict[str, str] = {}
        self.lease: WindlassError | None = None
        """What keeps this master from leading."""

    async def check_lease(self) -> None:
        if self.lease is not None:
            raise self.lease

    async def load(self) -> Documents:
        return Documents(
            intents=[(id_, json.loads(text)) for id_, text in self.intents.items()],
            instances=[
                (id_, json.loads(text)) for id_, (gone, text) in self.instances.items() if not gone
            ],
            memory=json.loads(self.memory) if self.memory else None,
            lessons=[json.loads(text) for text in self.lessons.values()],
            bakes=[json.loads(text) for text in self.bakes.values()],
            decisions=[each for each in self.journal() if each["is_open"]],
        )

    def journal(self) -> list[dict[str, Any]]:
        """In the order in which they began."""
        return [json.loads(text) for text in self.decisions.values()]

    async def save(
        self,
        *,
        intents: Sequence[tuple[str, dict[str, Any]]] = (),
        instances: Sequence[tuple[str, str, bool, dict[str, Any]]] = (),
        memory: dict[str, Any] | None = None,
        lessons: Mapping[str, dict[str, Any] | None] = NOTHING,
        bakes: Mapping[str, dict[str, Any] | None] = NOTHING,
        decisions: Sequence[WrittenDecision] = (),
    ) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise StoreUnavailable("disk full")
        self.commits += 1
        self.intents |= {id_: json.dumps(document) for id_, document in intents}
        self.instances |= {id_: (gone, json.dumps(doc)) for id_, _, gone, doc in instances}
        if memory is not None:
            self.memory = json.dumps(memory)
        for each in decisions:
            self.decisions[each.document["id"]] = json.dumps(each.document)
        for rows, changed in ((self.lessons, lessons), (self.bakes, bakes)):
            for key, document in changed.items():
                if document is None:
                    rows.pop(key, None)
                else:
                    rows[key] = json.dumps(document)

    def knows_intent(self, intent_id: str) -> bool:
        return intent_id in self.intents


@dataclass
class FakeHost:
    """A NodeHost with one pool and a scheduler that places what fits, oldest first."""

    pool: str = "gpu"
    waiting: dict[str, Gang] = field(default_factory=dict)
    placed: dict[str, dict[str, int]] = field(default_factory=dict)
    """request id -> agent id -> slots"""
    sizes: dict[str, int] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    cordoned: set[str] = field(default_factory=set)
    leaving: dict[str, tuple[float, str]] = field(default_factory=dict)
    notices: dict[str, Notice] = field(default_factory=dict)
    """Of machines that their provider takes back, as their agents or the provider said."""
    gone: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, Reason] = field(default_factory=dict)
    last_outlook: PoolAvailability | None = None
    schedules: bool = True
    started: dict[str, float] = field(default_factory=dict)
    ran_s: float = 0.0
    """How long work has seemingly run when it starts: what runs for long is moved."""
    stubborn: set[str] = field(default_factory=set)
    """Work that cannot be preempted."""
    releasing: set[str] = field(default_factory=set)
    lets_go: bool = False
    """Work leaves at once when it is asked to."""
    now: Callable[[], float] = lambda: 0.0

    def demand(self) -> Sequence[PoolDemand]:
        self.schedule()
        nodes = tuple(
            Node(
                agent_id=agent_id,
                pool=self.pool,
                slots=slots,
                free_slots=self.free(agent_id),
                instance_id=agent_id,
                busy=self.is_busy(agent_id),
                connected=agent_id not in self.silent,
                schedulable=agent_id not in self.notices,
                notice=self.notices.get(agent_id),
            )
            for agent_id, slots in self.sizes.items()
        )
        waiting = bool(self.waiting)
        gangs = (*self.waiting.values(), *self._made_to_leave())
        demand = PoolDemand(pool=self.pool, gangs=gangs, nodes=nodes, has_waiting=waiting)
        return (demand,)

    def _made_to_leave(self) -> Iterable[Gang]:
        for id_, placement in self.placed.items():
            if placement.keys() & self.notices.keys() and id_ not in self.stubborn:
                yield a_gang(id_, sum(placement.values()))

    def running(self, pool: str) -> Sequence[Running]:
        """Work checkpoints all the time."""
        now = self.now()
        return [
            Running(
                request=Request(
                    id=id_,
                    job_id=f"job-{id_}",
                    slots=sum(placement.values()),
                    requested=0.0,
                    preemptible=id_ not in self.stubborn,
                ),
                placement=placement,
                started=self.started[id_],
                releasing=id_ in self.releasing,
                last_checkpoint=now,
            )
            for id_, placement in self.placed.items()
        ]

    def cordon(self, agent_id: str) -> bool:
        if self.is_busy(agent_id):
            return False
        self.cordoned.add(agent_id)
        return True

    def uncordon(self, agent_id: str) -> None:
        self.cordoned.discard(agent_id)

    def drain(self, agent_id: str) -> None:
        self.cordoned.add(agent_id)

    def leave(self, agent_id: str, deadline: Deadline) -> None:
        by, why = deadline.at, deadline.reason
        self.leaving[agent_id] = (by, why)
        self.cordoned.add(agent_id)
        if deadline.cause is Cause.TAKEN_BACK:
            self.notices.setdefault(agent_id, Notice(at=by, why=why))
        if self.lets_go:
            for request_id, placement in list(self.placed.items()):
                if agent_id in placement and request_id not in self.stubborn:
                    self.waiting[request_id] = a_gang(request_id, sum(placement.values()))
                    del self.placed[request_id]

    async def instance_gone(self, agent_id: str, reason: str) -> None:
        await asyncio.sleep(0)
        self.gone[agent_id] = reason
        self.sizes.pop(agent_id, None)
        for request_id, placement in list(self.placed.items()):
            if agent_id in placement:  # lost: it runs again
                slots = sum(placement.values())
                del self.placed[request_id]
                self.waiting[request_id] = a_gang(request_id, slots)

    def availability(self, availability: PoolAvailability) -> None:
        self.last_outlook = availability
        self.reasons = dict(availability.reasons)

    def free(self, agent_id: str) -> int:
        if agent_id in self.cordoned:
            return 0
        used = sum(placement.get(agent_id, 0) for placement in self.placed.values())
        return self.sizes[agent_id] - used

    def is_busy(self, agent_id: str) -> bool:
        return any(agent_id in placement for placement in self.placed.values())

    def schedule(self) -> None:
        for gang in list(self.waiting.values()) if self.schedules else ():
            placement = self._fit(gang)
            if placement is not None:
                del self.waiting[gang.request_id]
                self.placed[gang.request_id] = placement
                self.started[gang.request_id] = self.now() - self.ran_s

    def finish(self, request_id: str) -> None:
        self.waiting.pop(request_id, None)
        self.placed.pop(request_id, None)

    def _fit(self, gang: Gang) -> dict[str, int] | None:
        out = self.silent | self.cordoned | self.notices.keys()
        usable = [a for a in self.sizes if a not in out]
        fits = [a for a in usable if self.free(a) >= gang.slots]
        if fits:
            return {min(fits, key=self.free): gang.slots}
        whole = [a for a in usable if not self.is_busy(a)]
        for size in {self.sizes[a] for a in whole}:
            same = [a for a in whole if self.sizes[a] == size]
            count, rest = divmod(gang.slots, size)
            if not gang.single_agent and rest == 0 and len(same) >= count:
                return dict.fromkeys(same[:count], size)
        return None


class FleetWorld:
    """Made inside a running loop whose time is the clock's. `start` may be called again after `crash`."""

    def __init__(
        self,
        clock: Clock,
        offers: Iterable[Offer],
        *,
        settings: PoolSettings | None = None,
        list_grace_s: float = 60.0,
        seed: int = 1,
        money: Money = NO_LIMITS,
        cloud_name: str | None = None,
        interval_s: float = 2.0,
    ) -> None:
        """`cloud_name`: of the cloud; None: as its offers say. `interval_s`: of the provisioner's loop."""
        self.interval_s = interval_s
        self.money = money
        self.clock = clock
        self.host = FakeHost(now=lambda: clock.now().timestamp())
        self.store = MemoryFleetStore()
        self.ids = Ids.seeded(seed)
        self.settings = settings or PoolSettings(pool="gpu", max_instances=10, max_idle_s=120.0)
        self.cloud = SimulatedProvider(
            offers=tuple(offers),
            clock=LoopClock(),  # its own: nobody who sets the master's sets that
            cluster_id=CLUSTER,
            name=cloud_name,
            list_grace_s=list_grace_s,
            on_boot=self._booted,
            on_end=self._ended,
            on_stop=self._ended,
        )
        self.others: list[SimulatedProvider] = []
        """More providers of the same pool."""
        self.generation = 0
        self.provisioner: Provisioner
        self._runner: asyncio.Task[None] | None = None

    def add_provider(self, *offers: Offer, **more: Any) -> SimulatedProvider:
        """Before `start`."""
        self.others.append(
            SimulatedProvider(
                offers=offers,
                clock=LoopClock(),
                cluster_id=CLUSTER,
                on_boot=self._booted,
                on_end=self._ended,
                **more,
            )
        )
        return self.others[-1]

    async def start(self, *providers: Provider) -> Provisioner:
        """`providers`: in place of the simulated cloud."""
        self.generation += 1
        self.provisioner = Provisioner(
            pools=[self.settings],
            providers=[*(providers or [self.cloud]), *self.others],
            host=self.host,
            store=self.store,
            clock=self.clock,
            ids=self.ids,
            cluster_id=CLUSTER,
            generation=self.generation,
            money=self.money,
            interval_s=self.interval_s,
        )
        await self.provisioner.load()
        for agent_id in self.host.sizes:
            if agent_id not in self.host.silent:
                self.provisioner.note_agent(agent_id, True)
        self._runner = asyncio.create_task(self.provisioner.run())
        return self.provisioner

    @property
    def runner(self) -> asyncio.Task[None]:
        assert self._runner is not None
        return self._runner

    async def crash(self) -> None:
        """Stop at whatever line it is; what the cloud was asked for is done or not."""
        assert self._runner is not None
        self._runner.cancel()
        with suppress(asyncio.CancelledError):
            await self._runner
        self.host.cordoned.clear()

    async def stop(self) -> None:
        await self.crash()
        self.cloud.drop_timers()

    async def want(self, *gangs: Gang) -> None:
        self.host.waiting |= {gang.request_id: gang for gang in gangs}
        self.provisioner.wake()

    async def until(self, what: Any, limit_s: float = 3600.0) -> None:
        """Virtual time passes until `what()` is true, or the provisioner fails."""
        async with asyncio.timeout(limit_s):
            while not what():
                self._raise_what_ended_it()
                await asyncio.sleep(0.5)

    def _raise_what_ended_it(self) -> None:
        """Such as the end of a test's time, which is raised in whatever task runs then."""
        if self._runner is None or not self._runner.done() or self._runner.cancelled():
            return
        error = self._runner.exception()
        if error is not None:
            raise error

    def go_silent(self, agent_id: str) -> None:
        self.host.silent.add(agent_id)
        self.provisioner.note_agent(agent_id, False)

    def come_back(self, agent_id: str) -> None:
        self.host.silent.discard(agent_id)
        self.provisioner.note_agent(agent_id, True)

    def living(self) -> list[str]:
        clouds = [self.cloud, *self.others]
        return [instance.id for cloud in clouds for instance in cloud.living()]

    def states(self) -> list[str]:
        return sorted(view.state for view in self.provisioner.instances())

    def _booted(self, instance: SimulatedInstance) -> None:
        self.host.sizes[instance.id] = instance.intent.offer.slots
        self.host.silent.discard(instance.id)
        self.provisioner.note_agent(instance.id, True)

    def _ended(self, instance: SimulatedInstance) -> None:
        if instance.id in self.host.sizes:
            self.host.silent.add(instance.id)
            self.provisioner.note_agent(instance.id, False)


def blocked(gang: Gang, *agents: str) -> Gang:
    return replace(gang, blocked_agents=frozenset(agents))
