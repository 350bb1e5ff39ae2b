"""The loop that turns pending demand into machines: look, plan, write the intent, act, look again.

One reconcile pass at a time changes the state; nobody else does. Calls to providers run as tasks of their own with a
deadline and put their answers into an inbox, so a call that hangs stops nothing but itself. A pass that cannot commit
changes nothing: the inbox is kept, nodes are uncordoned, and the next pass tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from provisioner.documents import forget_finished, restored, unsaved
from provisioner.fleet import EndKind, InstanceRecord, InstanceState, IntentRecord, Wish
from provisioner.fleet_state import (
    Agents,
    Event,
    FleetState,
    Launched,
    LaunchRefused,
    LaunchUnanswered,
    Looked,
    PoolSetup,
    TerminateAnswered,
    Told,
)
from provisioner.plan_types import Plan, PlanInput
from provisioner.planner import plan
from provisioner.ports import FleetStore, NodeHost
from provisioner.providers.base import LaunchIntent, Provider
from provisioner.reconcile_pass import ReconcilePass
from provisioner.refusals import BlockKind
from provisioner.snapshot import (
    asked_to_end,
    blocked_offers,
    called,
    cost_view,
    due_launches,
    due_terminations,
    instance_views,
    plan_input,
    to_tell,
)
from provisioner.types import BlockedOffer, CostView, InstanceView, PoolCapacity, PoolSettings
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError, ProviderAuthError, QuotaError
from windlass.base.ids import Ids
from windlass.base.loop import Loop

log = logging.getLogger(__name__)

CALL_DEADLINE_S = 30.0
DEBOUNCE_S = 0.2
"""After a wake the pass waits so long: a searcher's gangs arrive together and are bought together."""
THREAD_FROM_GANGS = 2_000
"""Plans for more gangs than this may take 20 ms and leave the event loop."""
NOT_LISTED_YET = "the provider's machines are being listed"

_REFUSALS: Sequence[tuple[type[Exception], BlockKind]] = (
    (CapacityError, BlockKind.CAPACITY),
    (QuotaError, BlockKind.QUOTA),
    (ProviderAuthError, BlockKind.AUTH),
)


class Provisioner:
    """Keeps the machines of some pools in step with what waits in them."""

    def __init__(
        self,
        *,
        pools: Sequence[PoolSettings],
        providers: Mapping[str, Provider],
        host: NodeHost,
        store: FleetStore,
        clock: Clock,
        ids: Ids,
        cluster_id: str,
        generation: int,
        interval_s: float = 2.0,
    ) -> None:
        self._providers = providers
        self._host = host
        self._store = store
        self._clock = clock
        self._ids = ids
        self._interval_s = interval_s
        self._setups = {
            settings.pool: PoolSetup(
                settings=settings,
                offers=tuple(providers[settings.pool].offers()),
                list_grace_s=providers[settings.pool].list_grace_s,
            )
            for settings in pools
        }
        self._state = FleetState(
            cluster_id=cluster_id,
            generation=generation,
            unseen=dict.fromkeys(self._setups, NOT_LISTED_YET),
        )
        self._inbox: list[Event] = []
        self._connected: set[str] = set()
        self._looking: set[str] = set()
        self._looked_at: dict[str, float] = {}
        self._telling: set[str] = set()
        self._ends_everything = False
        self._closed = asyncio.Event()
        self._loop = Loop("provisioner", self.reconcile_pass, interval_s=interval_s)
        self._calls: asyncio.TaskGroup | None = None
        self._under_way = 0
        self._debounce: asyncio.TimerHandle | None = None

    async def load(self) -> None:
        """Read what was written down. Once, before `run`."""
        self._state = restored(self._state, await self._store.load())
        self._state = replace(self._state, watching_since=self._now())
        for record in self._state.instances.values():
            if (
                record.state is InstanceState.TERMINATING
            ):  # the host forgot; its agent may come back meanwhile
                self._host.cordon(record.id)
            if record.pool not in self._setups:
                log.error(
                    "still billing: instance %s belongs to pool %s, which the configuration does not have",
                    record.id,
                    record.pool,
                )

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
        else:
            self._connected.discard(instance_id)
        self._loop.wake()

    def is_instance(self, name: str) -> bool:
        """Whether a machine of ours is called so, whatever its state."""
        return name in self._state.instances

    def capacity(self, pool: str) -> PoolCapacity:
        """What the pool could ever be, for refusing impossible work at submission."""
        setup = self._setups[pool]
        return PoolCapacity(
            pool=pool,
            node_slots=tuple(sorted({offer.slots for offer in setup.offers})),
            max_instances=setup.settings.max_instances,
        )

    def instances(self) -> Sequence[InstanceView]:
        return instance_views(self._state, self._now())

    def blocked_offers(self) -> Sequence[BlockedOffer]:
        offers = (offer for setup in self._setups.values() for offer in setup.offers)
        return blocked_offers(self._state, offers, self._now())

    def cost(self) -> CostView:
        return cost_view(self._state, self._now())

    async def shutdown(self, terminate: bool) -> None:
        """Launch nothing more and return when no call is under way; with `terminate`, when every machine is gone.

        Best while `run` is running; otherwise it runs the loop itself. Cancel it to stop waiting.
        """
        self._state = replace(self._state, closing=True)
        self._ends_everything = terminate
        self._closed.clear()
        if self._calls is not None:
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
            async with asyncio.TaskGroup() as self._calls:
                yield
        finally:
            self._calls = None
            if self._debounce is not None:
                self._debounce.cancel()
                self._debounce = None

    async def reconcile_pass(self) -> None:
        """Take in answers, plan, commit, act. `run` calls it; tests may, inside `owning_calls`."""
        now = self._now()
        self._start_looks()
        events = tuple(self._inbox)
        demand = self._host.demand()
        agents = Agents(
            nodes={node.agent_id: node for pool in demand for node in pool.nodes},
            connected=frozenset(self._connected),
        )
        reconcile_pass = ReconcilePass(self._state, self._setups, now)
        reconcile_pass.absorb(events, agents)
        planned = await _plan(
            plan_input(reconcile_pass.result(), demand, self._setups, agents, now)
        )
        reconcile_pass.apply(planned, self._ids.uuid)
        ended = self._end(reconcile_pass, planned)
        await self._commit(reconcile_pass.result(), ended, len(events))
        self._act(now)
        for instance_id, (by, why) in reconcile_pass.leaving.items():
            self._host.leave(instance_id, by, why)
        for availability in planned.availabilities:
            self._host.availability(availability)
        self._close_if_done()

    def _end(self, reconcile_pass: ReconcilePass, planned: Plan) -> Sequence[str]:
        if self._state.closing:
            reconcile_pass.drop_uncalled()
        if self._ends_everything:
            everything = [
                Wish(instance_id=id_, kind=EndKind.CLOSING, why="the cluster is shutting down")
                for id_ in reconcile_pass.result().instances
            ]
            reconcile_pass.end(everything, lambda _: True)
            return ()
        idle = [
            Wish(instance_id=x.instance_id, kind=EndKind.IDLE, why=x.why)
            for x in planned.terminations
        ]
        return reconcile_pass.end([*reconcile_pass.wishes, *idle], self._host.cordon)

    async def _commit(self, new: FleetState, cordoned: Sequence[str], events: int) -> None:
        changes = unsaved(self._state, new)
        try:
            if changes:
                await self._store.save(
                    intents=changes.intents, instances=changes.instances, memory=changes.memory
                )
        except BaseException:
            for agent_id in cordoned:
                self._host.uncordon(agent_id)
            raise
        # `shutdown` may have been called while the commit was under way.
        self._state = replace(forget_finished(new), closing=self._state.closing)
        del self._inbox[:events]

    def _act(self, now: float) -> None:
        """Start every call that the committed state says is due."""
        launches = due_launches(self._state, now)
        self._state = called(self._state, launches, now)
        for intent in launches:
            self._start(self._launch(self._state.intents[intent.id]))
        for pool, instance_ids in due_terminations(self._state, now).items():
            self._state = asked_to_end(self._state, instance_ids, now)
            self._start(self._terminate(pool, tuple(instance_ids)))
        for record in to_tell(self._state):
            if record.id not in self._telling:
                self._telling.add(record.id)
                self._start(self._tell(record))

    def _start_looks(self) -> None:
        now = self._clock.monotonic()
        for pool in self._setups:
            last = self._looked_at.get(pool)
            due = last is None or now - last >= self._interval_s
            if due and pool not in self._looking:
                self._looking.add(pool)
                self._looked_at[pool] = now
                self._start(self._look(pool))

    def _close_if_done(self) -> None:
        if not self._state.closing:
            return
        empty = not self._state.instances and not self._state.intents
        if empty if self._ends_everything else self._under_way == 0:
            self._closed.set()

    def _start(self, call: Coroutine[Any, Any, Event]) -> None:
        if self._calls is None:
            call.close()
            raise RuntimeError("a reconcile pass needs owning_calls() around it")
        self._under_way += 1
        self._calls.create_task(self._answered(call))

    async def _answered(self, call: Coroutine[Any, Any, Event]) -> None:
        try:
            self._inbox.append(await call)
        finally:
            self._under_way -= 1
        self._loop.wake()

    async def _look(self, pool: str) -> Event:
        started_at = self._now()
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                found = await self._providers[pool].list()
        except Exception as error:  # noqa: BLE001 - a failing provider is an answer
            log.warning("listing pool %s failed: %s", pool, _text(error))
            return Looked(pool=pool, started_at=started_at, found=None, error=_text(error))
        finally:
            self._looking.discard(pool)
        return Looked(pool=pool, started_at=started_at, found=tuple(found))

    async def _launch(self, intent: IntentRecord) -> Event:
        call = LaunchIntent(
            intent_id=intent.id,
            token=intent.token,
            cluster_id=self._state.cluster_id,
            pool=intent.pool,
            generation=intent.generation,
            offer=intent.offer,
            count=intent.count,
        )
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                result = await self._providers[intent.pool].launch(call)
        except OSError as error:  # TimeoutError is one
            log.warning("launch %s in pool %s unanswered: %s", intent.id, intent.pool, _text(error))
            return LaunchUnanswered(intent=intent, message=_text(error))
        except Exception as error:  # noqa: BLE001 - unknown errors block the offer, verbatim
            log.warning("launch %s in pool %s refused: %s", intent.id, intent.pool, _text(error))
            kind = next((k for t, k in _REFUSALS if isinstance(error, t)), BlockKind.UNKNOWN)
            return LaunchRefused(intent=intent, kind=kind, message=_text(error))
        log.info("launched %s in pool %s", ", ".join(result.instance_ids), intent.pool)
        return Launched(intent=intent, instance_ids=result.instance_ids)

    async def _terminate(self, pool: str, instance_ids: tuple[str, ...]) -> Event:
        listed = ", ".join(instance_ids)
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                await self._providers[pool].terminate(instance_ids)
        except Exception as error:  # noqa: BLE001 - asked again until it is confirmed
            log.error("still billing: terminating %s failed: %s", listed, _text(error))
            return TerminateAnswered(instance_ids=instance_ids, error=_text(error))
        log.info("terminated %s in pool %s", listed, pool)
        return TerminateAnswered(instance_ids=instance_ids)

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
                    return Told(instance_id=record.id)
        finally:
            self._telling.discard(record.id)

    def _wake_now(self) -> None:
        self._debounce = None
        self._loop.wake()

    def _now(self) -> float:
        return self._clock.now().timestamp()


async def _plan(state: PlanInput) -> Plan:
    if sum(len(pool.demand.gangs) for pool in state.pools) < THREAD_FROM_GANGS:
        return plan(state)
    return await asyncio.to_thread(plan, state)


def _text(error: BaseException) -> str:
    """One line, never empty."""
    return " ".join(str(error).split()) or type(error).__name__
