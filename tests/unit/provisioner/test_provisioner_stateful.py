"""A random life of the whole provisioner: work comes and goes, the cloud fails in every way, the master crashes.

The real planner, fleet, capacity memory and reconciler run on virtual time against the simulated provider.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from provisioner.fleet.instances import instance_from_document
from provisioner.money.budgets import Budget
from provisioner.money.prices import usd_for
from provisioner.planning.scale_down.disruption import Disruption
from provisioner.planning.scale_down.stopped_agents import StoppedAgents
from provisioner.providers.base import LimitedCall
from provisioner.types import PoolSettings
from tests.examples import examples
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.simulated_provider import Faults
from tests.fakes.virtual_time import LoopClock, VirtualTimeLoop
from windlass.base.errors import CapacityError, QuotaError, StoreUnavailable

OFFERS = (
    an_offer(1, 1.0, boot_s=30.0, can_stop=True, disk_usd_per_hour=0.001),
    an_offer(4, 3.0, boot_s=60.0, can_stop=True, disk_usd_per_hour=0.001),
    an_offer(4, 2.0, zone="b", boot_s=90.0),
    an_offer(8, 8.0, zone="b", boot_s=60.0),
)
SLOTS = st.sampled_from([0, 1, 1, 2, 3, 4, 8, 16])


class Failures(logging.Handler):
    """Collects failing turns; those of a broken disk are expected."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, StoreUnavailable):
            self.seen.append(f"{record.getMessage()}: {error!r}")


def check_ledger(world: FleetWorld, set_back_s: float) -> None:
    """Everything that was paid for is in the books, from its first to its last second, and nothing else is.

    `set_back_s`: by how much the clock was set back. A master that dies then, or cannot write, finds lives shorter.
    """
    lives = [instance_from_document(json.loads(text)) for _, text in world.store.instances.values()]
    spent = world.provisioner.cost().spent_usd
    assert spent == pytest.approx(sum(life.usd(0.0) for life in lives), abs=1e-6)
    assert {life.id for life in lives} == set(world.cloud.instances)
    assert all(life.ended_at is not None for life in lives)
    prices = sum(machine.intent.offer.usd_per_hour for machine in world.cloud.instances.values())
    assert spent >= world.cloud.usd() - usd_for(prices, set_back_s) - 1e-6


class FleetLife(RuleBasedStateMachine):
    """Rules act on the world; every rule lets a little time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self.next_gang = 0
        self.set_back_s = 0.0
        self.failures = Failures()
        logging.getLogger().addHandler(self.failures)

    def wait(self, work: Coroutine[Any, Any, Any]) -> None:
        self.runner.run(work)

    @initialize(
        most=st.sampled_from([2, 12]),
        budget=st.sampled_from([None, 6.0]),
        least=st.sampled_from([0, 0, 1]),
        moves=st.booleans(),
        idle_auto=st.booleans(),
        stops=st.booleans(),
    )
    def begin(
        self,
        most: int,
        budget: float | None,
        least: int,
        moves: bool,
        idle_auto: bool,
        stops: bool,
    ) -> None:
        async def start() -> None:
            self.clock = LoopClock()
            self.most, self.budget = most, budget
            self.world = FleetWorld(
                self.clock,
                OFFERS,
                settings=PoolSettings(
                    pool="gpu",
                    max_instances=most,
                    min_instances=least,
                    max_idle_s=90.0,
                    budget=Budget(usd_per_hour=budget),
                    idle_auto=idle_auto,
                    stopped=StoppedAgents(
                        max=2 * stops,
                        expected_gap=timedelta(seconds=600.0),
                        max_age=timedelta(seconds=1800.0),
                    ),
                    disruption=Disruption(packing=moves, replacement=moves, drift=moves, share=0.5),
                ),
            )
            self.world.host.ran_s, self.world.host.lets_go = 7200.0, True
            await self.world.start()

        self.wait(start())

    @rule(slots=st.lists(SLOTS, min_size=1, max_size=6))
    def submit(self, slots: list[int]) -> None:
        gangs = [a_gang(f"g{self.next_gang + i}", size) for i, size in enumerate(slots)]
        self.next_gang += len(gangs)

        async def work() -> None:
            await self.world.want(*gangs)
            await asyncio.sleep(1)

        self.wait(work())

    @rule(seconds=st.sampled_from([1, 5, 30, 200, 700]))
    def pass_time(self, seconds: int) -> None:
        self.wait(asyncio.sleep(seconds))

    @precondition(lambda self: self.world.host.placed or self.world.host.waiting)
    @rule(data=st.data())
    def end_work(self, data: st.DataObject) -> None:
        known = sorted({*self.world.host.placed, *self.world.host.waiting})
        self.world.host.finish(data.draw(st.sampled_from(known)))
        self.wait(asyncio.sleep(1))

    @precondition(lambda self: self.world.living())
    @rule(data=st.data())
    def lose_machine(self, data: st.DataObject) -> None:
        self.world.cloud.kill(data.draw(st.sampled_from(self.world.living())))
        self.wait(asyncio.sleep(1))

    @precondition(lambda self: self.world.host.sizes)
    @rule(data=st.data())
    def agent_flaps(self, data: st.DataObject) -> None:
        living = [a for a in self.world.host.sizes if a in self.world.living()]
        for agent_id in living[: data.draw(st.integers(0, 3))]:
            if agent_id in self.world.host.silent:
                self.world.come_back(agent_id)
            else:
                self.world.go_silent(agent_id)
        self.wait(asyncio.sleep(1))

    @rule(
        stock_out=st.sets(st.sampled_from([offer.key for offer in OFFERS])),
        lost=st.integers(0, 2),
        unanswered=st.integers(0, 2),
        hang=st.sets(st.sampled_from(["launch", "list", "terminate"]), max_size=1),
        list_fails=st.booleans(),
        hide=st.sampled_from([0.0, 30.0, 55.0]),
        stuck=st.sets(st.sampled_from([offer.key for offer in OFFERS]), max_size=2),
        queued=st.sampled_from([0, 0, 100, 2000]),
        spent=st.integers(0, 1),
    )
    def break_cloud(
        self,
        stock_out: set[Any],
        lost: int,
        unanswered: int,
        hang: set[str],
        list_fails: bool,
        hide: float,
        stuck: set[Any],
        queued: int,
        spent: int,
    ) -> None:
        self.world.cloud.faults = Faults(
            stock_out=stock_out,
            lost_replies=lost,
            lost_starts=lost,
            stop_failures=unanswered,
            no_start=dict.fromkeys(stock_out, CapacityError("none left")),
            unanswered=unanswered,
            hang=hang,
            list_fails=list_fails,
            hide_young_s=hide,
            terminate_failures=lost,
            never_boot=stuck,
            queue_s={OFFERS[1].key: queued, OFFERS[2].key: queued} if queued else {},
            spent_tokens=spent,
            cancel_failures=lost,
            throttle={LimitedCall.LAUNCH: unanswered, LimitedCall.LIST: lost},
            refuse={OFFERS[0].key: QuotaError("limit 0")} if lost else {},
            dies_at_boot={OFFERS[3].key} if unanswered == 2 else set(),
        )
        self.wait(asyncio.sleep(1))

    @rule(settings=st.sampled_from(["v1", "v2"]))
    def change_settings(self, settings: str) -> None:
        """Where drift counts, machines are exchanged for it."""
        self.world.cloud.settings = settings
        self.wait(asyncio.sleep(1))

    @rule()
    def mend_cloud(self) -> None:
        self.world.cloud.faults = Faults()

    @rule(broken=st.booleans())
    def disk(self, broken: bool) -> None:
        self.world.store.fails = broken

    @rule(after=st.sampled_from([0.0, 0.2, 0.2001, 1.0]))
    def crash(self, after: float) -> None:
        async def work() -> None:
            await asyncio.sleep(after)
            await self.world.crash()
            await self.world.start()
            await asyncio.sleep(1)

        self.wait(work())

    @invariant()
    def never_above_the_maximum(self) -> None:
        if hasattr(self, "world"):
            clouds = [self.world.cloud, *self.world.others]
            running = [x for cloud in clouds for x in cloud.living() if not x.is_stopped]
            assert len(running) <= self.most
            assert len(self.world.living()) <= self.most + 2

    @invariant()
    def never_above_the_budget(self) -> None:
        """Of one hour: machines that are taken back or lost cost nothing any more."""
        if hasattr(self, "world") and self.budget is not None:
            clouds = [self.world.cloud, *self.world.others]
            living = [x for cloud in clouds for x in cloud.living() if not x.is_stopped]
            assert sum(x.intent.offer.usd_per_hour for x in living) <= self.budget

    @invariant()
    def none_without_a_committed_intent(self) -> None:
        if hasattr(self, "world"):
            for instance in self.world.cloud.instances.values():
                assert self.world.store.knows_intent(instance.intent.intent_id)

    @invariant()
    def every_waiting_gang_has_a_reason(self) -> None:
        if hasattr(self, "world") and not self.world.store.fails:
            self.wait(asyncio.sleep(3))
            if not self.world.store.fails:
                missing = set(self.world.host.waiting) - set(self.world.host.reasons)
                assert not missing

    @invariant()
    def no_turn_fails(self) -> None:
        assert not self.failures.seen

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.wait(self.mend_and_end())
        finally:
            self.runner.close()
            self.loop.close()  # the runner has none, if nothing ran: Hypothesis gave this life up at its start
            logging.getLogger().removeHandler(self.failures)
        self.no_turn_fails()

    async def mend_and_end(self) -> None:
        """With the faults gone everything that can run runs, idle machines go, and the books agree with the bill."""
        world = self.world
        world.cloud.faults = Faults()
        world.store.fails = False
        for agent_id in list(world.host.silent & set(world.living())):
            world.come_back(agent_id)
        for request_id in [*world.host.placed, *world.host.waiting]:
            world.host.finish(request_id)
        least = world.settings.min_instances
        await world.until(lambda: len(world.living()) == least, limit_s=20_000)
        await world.want(a_gang("last", 4))
        await world.until(lambda: "last" in world.host.placed, limit_s=20_000)
        world.host.finish("last")
        await world.provisioner.shutdown(terminate=True)
        assert not world.living()
        assert not world.provisioner.instances()
        check_ledger(world, self.set_back_s)
        await world.stop()


FleetLife.TestCase.settings = settings(
    max_examples=examples(25),
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.timeout(240)
class TestFleetLife(FleetLife.TestCase):  # type: ignore[misc,valid-type]
    pass


class StrangeFleetLife(FleetLife):
    """With machines that are taken back and clocks that jump."""

    @precondition(lambda self: self.world.living())
    @rule(data=st.data(), seconds=st.sampled_from([-1.0, 30.0, 600.0]))
    def take_back(self, data: st.DataObject, seconds: float) -> None:
        name = data.draw(st.sampled_from(self.world.living()))
        now = self.world.cloud._now()
        self.world.cloud.instances[name].leaves_at = now + seconds
        self.wait(asyncio.sleep(1))

    @rule(seconds=st.sampled_from([-3600.0, -30.0, 30.0, 3600.0]))
    def clock_jumps(self, seconds: float) -> None:
        self.set_back_s += max(0.0, -seconds)
        self.clock.jump(seconds)
        self.wait(asyncio.sleep(1))


StrangeFleetLife.TestCase.settings = settings(
    FleetLife.TestCase.settings, max_examples=examples(60)
)


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestStrangeFleetLife(StrangeFleetLife.TestCase):  # type: ignore[misc,valid-type]
    pass
