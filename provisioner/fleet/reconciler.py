"""The loop that turns pending demand into machines: look, plan, write the intent, act, look again.

One reconcile pass at a time changes the state; nobody else does. Calls to providers run as tasks of their own with a
deadline and put their answers into an inbox, so a call that hangs stops nothing but itself. A pass that cannot commit
changes nothing: the inbox is kept, nodes are uncordoned, and the next pass tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

from master.core.actor import Actor
from master.core.deadlines import Cause, Deadline
from provisioner.capacity.offer_views import OfferView, offer_id, offer_views
from provisioner.capacity.refusals import Unseen
from provisioner.fleet.calls import Calls
from provisioner.fleet.clock_jumps import shifted
from provisioner.fleet.counters import FleetCounters
from provisioner.fleet.decide import computed, decide
from provisioner.fleet.documents import Unsaved, forget_finished, restored, to_move, unsaved
from provisioner.fleet.due_calls import start_due
from provisioner.fleet.instances import (
    SWITCHED,
    BootNote,
    EndKind,
    EndRequest,
    InstanceRecord,
    InstanceState,
)
from provisioner.fleet.intents import IntentRecord, fingerprint, launch_call, launch_in_general
from provisioner.fleet.notices import leaving
from provisioner.fleet.plan_input import plan_input
from provisioner.fleet.reconcile_pass import ReconcilePass
from provisioner.fleet.state import (
    Agents,
    EndAcknowledged,
    Event,
    FleetCatalogue,
    FleetState,
    PoolSetup,
    Said,
    TryAgain,
)
from provisioner.fleet.views import (
    blocked_offers,
    cost_view,
    instance_views,
    moving,
    to_tell,
)
from provisioner.images.requests import Bakery
from provisioner.journal.notes import Notes
from provisioner.money.budgets import NO_LIMITS, Money
from provisioner.planning.budget_views import BudgetView, budget_views
from provisioner.planning.plan_types import KeepReason, Move, Plan, PlanInput
from provisioner.planning.preview import Preview, preview
from provisioner.ports import FleetStore, NodeHost
from provisioner.providers.base import LaunchIntent, Provider
from provisioner.types import (
    BlockedOffer,
    CostView,
    Gang,
    InstanceView,
    OfferKey,
    PoolCapacity,
    PoolDemand,
    PoolSettings,
    Scope,
)
from windlass.base.clock import Clock
from windlass.base.clock_jumps import Clocks
from windlass.base.errors import WindlassError
from windlass.base.formats.json_types import JsonMapping
from windlass.base.ids import Ids
from windlass.base.loop import Loop

log = logging.getLogger(__name__)

MOVE_WITHIN_S = 3600.0
"""So long work has at most that we ask to leave; less if its preemption timeout is shorter."""
DEBOUNCE_S = 0.05
"""After a wake the pass waits so long: a searcher's gangs arrive together and are bought together."""
NOT_LISTED_YET = "the provider's machines are being listed"


class Provisioner:
    """Keeps the machines of some pools in step with what waits in them."""

    def __init__(
        self,
        *,
        pools: Sequence[PoolSettings],
        providers: Iterable[Provider],
        host: NodeHost,
        store: FleetStore,
        clock: Clock,
        ids: Ids,
        cluster_id: str,
        generation: int,
        interval_s: float = 2.0,
        money: Money = NO_LIMITS,
    ) -> None:
        self._money = money
        self._providers = {provider.name: provider for provider in providers}
        self._host = host
        self._store = store
        self._clock = clock
        self._ids = ids
        self._interval_s = interval_s
        self._pools = {settings.pool: settings for settings in pools}
        self._state = FleetState(
            cluster_id=cluster_id,
            generation=generation,
            unseen={Scope(provider=name): Unseen(NOT_LISTED_YET) for name in self._providers},
        )
        self.counters = FleetCounters()
        self._connected: set[str] = set()
        self._boots: dict[str, BootNote] = {}
        """Of machines whose agent has not connected yet. A restart forgets them: their deadline counts."""
        self._telling: set[str] = set()
        self._ends_everything = False
        self._closed = asyncio.Event()
        self._loop = Loop("provisioner", self.reconcile_pass, interval_s=interval_s)
        self._clocks = Clocks(clock)
        self._calls = Calls(self._providers, clock, self._loop.wake, store.check_lease)
        self._debounce: asyncio.TimerHandle | None = None
        self._kept: Mapping[str, KeepReason] = {}
        """Machines without work that the last plan keeps."""
        self.bakery = Bakery(
            providers=self._providers,
            state=lambda: self._state,
            plan_input=self._plan_input,
            boots=lambda: self._boots,
            say=self._say,
            clock=clock,
            ids=ids,
        )

    async def load(self) -> None:
        """Read what was written down. Once, before `run`."""
        documents = await self._store.load()
        self._state = restored(self._state, documents)
        await self._save(to_move(documents, self._state))
        self._state = replace(
            self._state,
            watching_since=self._now(),
            intents={x.id: self._frozen(x) for x in self._state.intents.values()},
        )
        _warn_of_unknown(self._state, self._providers)
        for record in self._state.instances.values():
            if record.state in (InstanceState.TERMINATING, InstanceState.STOPPING):
                # The host forgot; its agent may come back meanwhile.
                self._host.cordon(record.id)
            elif record.moving_since is not None:
                self._host.drain(record.id)

    async def run(self) -> None:
        """Until cancelled. Calls that are under way then are cancelled; a restart repeats them."""
        async with self.owning_calls():
            await self._loop.run()

    def wake(self) -> None:
        """Demand changed. Turns follow in bursts of `DEBOUNCE_S`."""
        if self._debounce is None:
            loop = asyncio.get_running_loop()
            self._debounce = loop.call_later(DEBOUNCE_S, self._wake_now)

    def note_agent(self, instance_id: str, connected: bool) -> None:
        """An agent connected or went silent; agents that are no instances of ours are ignored."""
        if connected:
            self._connected.add(instance_id)
            self._boots.pop(instance_id, None)
        else:
            self._connected.discard(instance_id)
        self._loop.wake()

    def note_boot(self, instance_id: str, words: str, *, failed: bool) -> None:
        """What a machine says of its boot. One that fails is ended at once."""
        self._boots[instance_id] = BootNote(words, failed)
        self._loop.wake()

    def is_instance(self, name: str) -> bool:
        """Whether a machine of ours is called so, whatever its state."""
        return name in self._state.instances

    def is_stopped(self, name: str) -> bool:
        """Whether that machine of ours is stopped, or on the way there or back: its agent is away and not lost."""
        record = self._state.instances.get(name)
        return record is not None and record.state in SWITCHED

    def launched_by(self, launch_id: str) -> frozenset[str] | None:
        """The machines of one launch that are not gone; None: its provider has not said yet which it made."""
        intent = self._state.intents.get(launch_id)
        if intent is not None and not intent.is_finished:
            return None
        instances = self._state.instances.values()
        return frozenset(i.id for i in instances if i.intent_id == launch_id)

    def bought_by(self, launch_id: str) -> OfferKey | None:
        """Which offer that launch is of; None: nothing is known of it."""
        intent = self._state.intents.get(launch_id)
        if intent is not None:
            return intent.offer.key
        made = (x for x in self._state.instances.values() if x.intent_id == launch_id)
        return next((record.offer.key for record in made), None)

    def capacity(self, pool: str) -> PoolCapacity:
        """What the pool could ever be, for refusing impossible work at submission."""
        setup = self._setup(pool)
        expected = [x for name in setup.undecided for x in self._providers[name].could_offer(pool)]
        offers = (*setup.offers, *expected)
        return PoolCapacity(
            pool=pool,
            node_slots=tuple(sorted({offer.slots for offer in offers})),
            max_instances=setup.settings.max_instances,
            kinds=frozenset((offer.slots, offer.facts) for offer in offers),
        )

    def instances(self) -> Sequence[InstanceView]:
        return instance_views(self._state, self._now(), self._kept, self._boots)

    def idle_ends(self) -> Sequence[float]:
        """When machines without work are to be ended, as the last plan says, and stopped ones."""
        idle = [kept.until for kept in self._kept.values() if kept.until is not None]
        return [*idle, *(self._stopped_ends())]

    def _stopped_ends(self) -> Iterator[float]:
        for record in self._state.instances.values():
            if record.state is InstanceState.STOPPED and record.pool in self._pools:
                yield (
                    record.stops[-1].since
                    + self._pools[record.pool].stopped.max_age.total_seconds()
                )

    def blocked_offers(self) -> Sequence[BlockedOffer]:
        offers = (offer for setup in self._catalogue().pools.values() for offer in setup.offers)
        return blocked_offers(self._state, offers, self._now())

    def offers(self) -> Sequence[OfferView]:
        """Every offer of every pool, and whether it may be bought now."""
        return offer_views(self._state, self._catalogue().pools.values(), self._now())

    async def retry(self, key: OfferKey, *, by: Actor) -> None:
        """Forget what keeps the offer from being bought, and plan anew. Returns once that is committed."""
        await self._say(TryAgain(scope=Scope.of(key)))
        log.info("offer %s may be tried again: asked by %s", offer_id(key), by)

    async def preview(self, gangs: Sequence[Gang] = ()) -> Preview:
        """What the next pass would launch if these gangs waited, too. Changes nothing."""
        return await asyncio.to_thread(preview, self._plan_input(), gangs)

    def budgets(self) -> list[BudgetView]:
        """Those that are set, with what counts against them."""
        return budget_views(self._plan_input())

    def _plan_input(self) -> PlanInput:
        demand = self._host.demand()
        pools, agents = self._catalogue().pools, self._agents(demand)
        return plan_input(self._state, demand, pools, agents, self._now(), self._money)

    async def _say(self, said: Said) -> None:
        """Returns once it is committed."""
        self._calls.inbox.append(said)
        self._loop.wake()
        await said.committed.wait()

    def cost(self) -> CostView:
        return cost_view(self._state, self._now())

    async def shutdown(self, terminate: bool) -> None:
        """Launch nothing more and return when no call is under way; with `terminate`, when every machine is gone.

        Best while `run` is running; otherwise it runs the loop itself. Cancel it to stop waiting.
        """
        self._state = replace(self._state, closing=True)
        self._ends_everything = terminate
        self._closed.clear()
        if self._calls.is_running:
            self._loop.wake()
            await self._closed.wait()
            return
        runner = asyncio.create_task(self.run(), name="provisioner-shutdown")
        closed = asyncio.create_task(self._closed.wait())
        try:
            await asyncio.wait({runner, closed}, return_when=asyncio.FIRST_COMPLETED)
            if runner.done():
                await runner
        finally:
            runner.cancel()
            closed.cancel()
            await asyncio.gather(runner, closed, return_exceptions=True)

    @asynccontextmanager
    async def owning_calls(self) -> AsyncIterator[None]:
        """While inside, turns may start calls; leaving waits for them, an exception cancels them."""
        try:
            async with self._calls.running():
                yield
        finally:
            if self._debounce is not None:
                self._debounce.cancel()
                self._debounce = None

    def look(self) -> None:
        """List the providers that may be asked again now; each pass does so when it begins."""
        self._calls.start_looks()

    async def reconcile_pass(self) -> None:
        """Take in answers, plan, commit, act. `run` calls it; tests may, inside `owning_calls`."""
        begun = perf_counter()
        now, jump_s = self._now(), self._clocks.jump_s()
        if jump_s:
            log.warning("the clock has jumped by %.0f s: deadlines move along", jump_s)
        self._calls.start_looks()
        events = tuple(self._calls.inbox)
        sold = self._catalogue()
        with_work = {pool: self._with_work(setup) for pool, setup in sold.pools.items()}
        catalogue = replace(sold, pools=with_work)
        demand = self._host.demand()
        agents = self._agents(demand)
        state = shifted(self._state, jump_s)
        size = len(state.instances) + sum(len(pool.gangs) for pool in demand)
        decided = partial(decide, state, catalogue, events, demand, agents, now, self._money)
        reconcile_pass, planned, weighed, planning_s = await computed(decided, size)
        reconcile_pass.apply(planned, self._ids.uuid, self._freeze)
        ended = self._end(reconcile_pass, planned)
        moves = [move for move in planned.moves if self._drained(move)]
        reconcile_pass.move(moves)
        new = reconcile_pass.result()
        notes = Notes(state, new, now, self._ids.uuid)
        new = replace(new, decisions=notes.noted(planned, weighed))
        cordoned = [*ended, *(move.instance_id for move in moves)]
        await self._commit(new, cordoned, events, size)
        self.counters.note(events)
        self.counters.plans.add(planning_s)
        if jump_s:
            self._clocks.settle()
        self._kept = planned.kept
        for instance_id in reconcile_pass.started:
            self._host.uncordon(instance_id)
        self._act(now)
        for instance_id in new.retired:
            self._host.drain(instance_id)
        for instance_id, (by, why) in {**self._moving(), **planned.leaving}.items():
            self._host.leave(instance_id, Deadline(at=by, cause=Cause.EMPTIED, reason=why))
        for instance_id, notice in leaving(self._state.instances).items():
            taken_back = Deadline(at=notice.at, cause=Cause.TAKEN_BACK, reason=notice.why)
            self._host.leave(instance_id, taken_back)
        for availability in planned.availabilities:
            self._host.availability(availability)
        self.counters.passes.add(perf_counter() - begun)
        self._close_if_done()

    def _drained(self, move: Move) -> bool:
        """It gets no more work, and nothing has come to it that was not there when this was planned."""
        node = self._host
        node.drain(move.instance_id)
        pools = [pool for pool, settings in self._pools.items() if settings.disruption.is_on]
        runs = (run for pool in pools for run in node.running(pool))
        there = {run.request.id for run in runs if move.instance_id in run.placement}
        if there == move.requests:
            return True
        node.uncordon(move.instance_id)
        return False

    def _moving(self) -> dict[str, tuple[float, str]]:
        return {
            record.id: ((record.moving_since or 0.0) + MOVE_WITHIN_S, record.moving_why)
            for record in moving(self._state)
        }

    def _end(self, reconcile_pass: ReconcilePass, planned: Plan) -> Sequence[str]:
        if self._state.closing:
            reconcile_pass.launches.drop_uncalled()
        if self._ends_everything:
            everything = [
                EndRequest(
                    instance_id=id_, kind=EndKind.CLOSING, why="the cluster is shutting down"
                )
                for id_ in reconcile_pass.result().instances
            ]
            reconcile_pass.end(everything, lambda _: True)
            reconcile_pass.launches.cancel_accepted("the cluster is shutting down")
            return ()
        ends = planned.terminations
        idle = [
            EndRequest(instance_id=x.instance_id, kind=EndKind.IDLE, why=x.why, stop=x.stop)
            for x in ends
        ]
        wishes = [*reconcile_pass.wishes, *idle]
        return reconcile_pass.end(wishes, self._host.cordon, self._host.uncordon)

    async def _commit(
        self, new: FleetState, cordoned: Sequence[str], events: Sequence[Event], size: int
    ) -> None:
        try:
            await self._save(await computed(partial(unsaved, self._state, new), size))
        except BaseException:
            for agent_id in cordoned:
                if not self._is_off(agent_id):
                    self._host.uncordon(agent_id)
            raise
        # `shutdown` may have been called while the commit was under way.
        self._state = replace(forget_finished(new), closing=self._state.closing)
        del self._calls.inbox[: len(events)]
        for event in events:
            if isinstance(event, Said):
                event.committed.set()

    def _is_off(self, agent_id: str) -> bool:
        """It is stopped or being stopped, whatever a pass that was not committed wanted: it gets no work."""
        record = self._state.instances.get(agent_id)
        return record is not None and record.state in (
            InstanceState.STOPPING,
            InstanceState.STOPPED,
        )

    async def _save(self, changes: Unsaved) -> None:
        if changes:
            await self._store.save(
                intents=changes.intents,
                instances=changes.instances,
                memory=changes.memory,
                lessons=changes.lessons,
                bakes=changes.bakes,
                decisions=changes.decisions,
            )

    def _act(self, now: float) -> None:
        """Start every call that the committed state says is due."""
        self._state = start_due(self._state, self._calls, now)
        for record in to_tell(self._state):
            if record.id not in self._telling:
                self._telling.add(record.id)
                self._calls.start(self._tell(record))

    def _close_if_done(self) -> None:
        if not self._state.closing:
            return
        bakes = any(not bake.is_over for bake in self._state.bakes.values())
        empty = not (self._state.instances or self._state.intents or bakes)
        if empty if self._ends_everything else self._calls.under_way == 0:
            self._closed.set()

    def _catalogue(self) -> FleetCatalogue:
        """What is for sale at this instant."""
        return FleetCatalogue(
            pools={pool: self._setup(pool) for pool in self._pools},
            list_grace_s={name: p.list_grace_s for name, p in self._providers.items()},
        )

    def _with_work(self, setup: PoolSetup) -> PoolSetup:
        """What disruptions look at, where they are allowed."""
        rules = setup.settings.disruption
        pool, drift = setup.settings.pool, rules.drift or setup.settings.stopped.is_on
        running = tuple(self._host.running(pool)) if rules.is_on else ()
        found = self._fingerprints(setup) if drift else {}
        return replace(setup, running=running, fingerprints=found)

    def _setup(self, pool: str) -> PoolSetup:
        sold = {name: provider.offers(pool) for name, provider in self._providers.items()}
        return PoolSetup(
            settings=self._pools[pool],
            offers=tuple(offer for offers in sold.values() for offer in offers or ()),
            undecided=frozenset(name for name, offers in sold.items() if offers is None),
        )

    def _agents(self, demand: Sequence[PoolDemand]) -> Agents:
        return Agents(
            nodes={node.agent_id: node for pool in demand for node in pool.nodes},
            connected=frozenset(self._connected),
            boots=dict(self._boots),
        )

    def _fingerprints(self, setup: PoolSetup) -> dict[OfferKey, str]:
        """Of what launches would be made of now; left out: those that could not be made."""
        found: dict[OfferKey, str] = {}
        for offer in setup.offers:
            with suppress(WindlassError):
                call = launch_in_general(self._state.cluster_id, setup.settings.pool, offer)
                found[offer.key] = fingerprint(self._freeze(call))
        return found

    def _freeze(self, call: LaunchIntent) -> JsonMapping:
        return self._providers[call.offer.key.provider].freeze(call)

    def _frozen(self, intent: IntentRecord) -> IntentRecord:
        """0.1.0 did not keep what its calls are made of."""
        if intent.request is not None or intent.provider not in self._providers:
            return intent
        call = launch_call(intent, self._state.cluster_id)
        return replace(intent, request=self._freeze(call))

    async def _tell(self, record: InstanceRecord) -> Event:
        try:
            while True:
                try:
                    await self._host.instance_gone(record.id, record.reason)
                except Exception:
                    log.exception("telling that instance %s is gone failed", record.id)
                    await asyncio.sleep(self._interval_s)
                else:
                    self._connected.discard(record.id)
                    self._boots.pop(record.id, None)
                    return EndAcknowledged(instance_id=record.id)
        finally:
            self._telling.discard(record.id)

    def _wake_now(self) -> None:
        self._debounce = None
        self._loop.wake()

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _warn_of_unknown(state: FleetState, providers: Container[str]) -> None:
    """Of what was bought from providers that the configuration does not have any more."""
    for intent in state.intents.values():
        if intent.provider not in providers:
            log.error(
                "launch %s of %d machines for pool %s is given up: provider %s is not configured any more, "
                "and what it may have made carries the tag of the launch there",
                intent.id,
                intent.count,
                intent.pool,
                intent.provider,
            )
    for record in state.instances.values():
        if record.provider not in providers:
            log.error(
                "still billing: instance %s is of provider %s, which the configuration does not have",
                record.id,
                record.provider,
            )
