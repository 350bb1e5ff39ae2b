"""The costs of costs, on both databases: exact to the machine, once only, by job, user and experiment."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from master.allocations.machine import AllocationPhase, AllocationState, ContainerProgress
from master.allocations.outcome import Outcome
from master.allocations.outcome import OutcomeKind as O
from master.allocations.persistence import allocation_changes
from master.costs.lines import KEYS, CostLine, GroupBy, condensed
from master.costs.recorder import CostRecorder
from master.store.repositories.fleet import FleetRepository
from master.store.store import Store
from master.store.tables import Allocation, FleetInstance, Task, User
from master.store.unit_of_work import UnitOfWork
from provisioner.fleet.instances import InstanceRecord, InstanceState, instance_document
from rm_backends.base import Container
from tests.fakes.fleet_world import an_offer
from windlass.base.clock import ManualClock

S = InstanceState
HOUR = 3600.0
START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""Of the clock of tests."""


def machine(name: str = "m", **more: Any) -> InstanceRecord:
    values = {"state": S.READY, "created_at": START, "ready_at": START + 60} | more
    return InstanceRecord(
        id=name, pool="gpu", offer=an_offer(4, 8.0), intent_id="i", generation=1, **values
    )


def gone(record: InstanceRecord, at: float) -> InstanceRecord:
    return replace(record, state=S.GONE, ended_at=at, told=True)


class World:
    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.costs = CostRecorder(store, clock)
        self.fleet = FleetRepository(store, self.costs.note)

    async def users(self) -> None:
        unit = UnitOfWork()
        for number, name in ((1, "ann"), (2, "bob")):
            row = {"id": number, "username": name, "admin": False, "active": True}
            unit.insert(
                User, row | {"created_at": self.clock.now(), "modified_at": self.clock.now()}
            )
        await self.store.commit(unit)

    async def save(self, *records: InstanceRecord) -> None:
        rows = [(r.id, r.pool, r.told, instance_document(r)) for r in records]
        await self.fleet.save(instances=rows)

    async def ran(
        self,
        name: str,
        user: int,
        agent: str,
        slots: int,
        start: float,
        end: float | None,
        **more: Any,
    ) -> None:
        """A task of job `job-<name>` held slots of an agent."""
        at = lambda s: None if s is None else datetime.fromtimestamp(START + s, UTC)  # noqa: E731
        container = Container(
            container_id=f"c-{name}", agent_id=agent, rank=0, slot_ids=tuple(range(slots))
        )
        state = AllocationState(
            id=f"{name}.1",
            task_id=name,
            run_id=1,
            pool="gpu",
            slots=slots,
            requested_at=at(start),
            started_at=at(start),
            ended_at=at(end),
            phase=AllocationPhase.RUNNING,
            containers=(ContainerProgress(container=container),),
            outcome=None if end is None else Outcome(kind=O.FINISHED, reason="done"),
            **more,
        )
        unit = UnitOfWork()
        task = {"id": name, "type": "TRIAL", "job_id": f"job-{name}", "owner_id": user}
        unit.insert(Task, task | {"experiment_id": user * 10, "created_at": at(start)})
        allocation_changes(unit, None, state)
        await self.store.commit(unit)

    async def sums(self, by: Callable[[CostLine], Any]) -> dict[Any, Any]:
        found: dict[Any, float] = {}
        for line in await self.costs.lines():
            found[by(line)] = found.get(by(line), 0.0) + line.usd
        return {key: pytest.approx(usd, abs=1e-6) for key, usd in found.items()}


@pytest.fixture
async def world(store: Store, clock: ManualClock) -> World:
    world = World(store, clock)
    await world.users()
    return world


async def test_costs_are_booked_while_machines_live_and_settled_when_they_are_gone(
    world: World,
) -> None:
    await world.save(machine())
    await world.ran("a", 1, "m", 4, 60, None)
    world.clock.advance(HOUR)
    live = await world.sums(lambda x: (x.job_id, x.kind.value))
    assert live == {("", "boot"): 8 / 60, ("job-a", "busy"): 8 * 59 / 60}
    await world.costs.record()
    assert await world.sums(lambda x: (x.job_id, x.kind.value)) == live
    world.clock.advance(HOUR)
    await world.save(gone(machine(), START + 2 * HOUR))
    await world.costs.record()
    assert await world.sums(lambda x: x.month) == {"2026-01": 16.0}
    assert await world.store.read(select(FleetInstance)) == []
    await world.costs.record()
    assert await world.sums(lambda x: x.user_id) == {None: 8 / 60, 1: 16 - 8 / 60}


async def test_another_master_goes_on_where_the_last_one_stopped(world: World) -> None:
    await world.save(machine(), machine("n"))
    await world.ran("a", 1, "m", 2, 60, 1800)
    await world.ran("b", 2, "m", 2, 60, None)
    for _ in range(5):
        world.clock.advance(777)
        await CostRecorder(world.store, world.clock).record()
    end = START + 5 * 777 + 10
    world.clock.advance(10)
    await world.save(gone(machine(), end), gone(machine("n"), end))
    await CostRecorder(world.store, world.clock).record()
    each = 8 * (5 * 777 + 10) / HOUR
    assert await world.sums(lambda x: x.instance_id) == {"m": each, "n": each}
    assert await world.sums(lambda x: (x.experiment_id, x.instance_id)) == {
        (10, "m"): 4 * (1800 - 60) / HOUR,
        (20, "m"): 4 * (5 * 777 + 10 - 60) / HOUR,
        (None, "m"): each - 4 * (1740 + 5 * 777 - 50) / HOUR,
        (None, "n"): each,
    }


async def test_spending_of_users_counts_what_is_not_booked_yet(world: World) -> None:
    await world.save(machine())
    await world.costs.record()
    assert world.costs.spending.usd_per_hour == {}
    await world.ran("a", 1, "m", 2, 60, None)
    world.clock.advance(HOUR)
    await world.costs.record()
    assert world.costs.spending.month_usd == {"ann": pytest.approx(4 * (HOUR - 60) / HOUR)}
    assert world.costs.spending.usd_per_hour == {"ann": pytest.approx(4.0)}
    assert await world.costs.usd_per_hour(10) == pytest.approx(4.0)
    assert await world.costs.usd_per_hour(20) == 0.0


async def test_spending_begins_anew_with_the_month(world: World) -> None:
    last = 31 * 24 * HOUR
    await world.save(machine(created_at=START + last - HOUR, ready_at=START + last - HOUR))
    await world.ran("a", 1, "m", 4, last - HOUR, None)
    world.clock.advance(last - 1)
    await world.costs.record()
    assert world.costs.spending.month_usd == {"ann": pytest.approx(8.0, abs=0.01)}
    world.clock.advance(HOUR + 1)
    await world.costs.record()
    assert world.costs.spending.month_usd == {"ann": pytest.approx(8.0)}
    assert await world.sums(lambda x: x.month) == {"2026-01": 8.0, "2026-02": 8.0}
    assert await world.sums(lambda x: x.day) == {"2026-01-31": 8.0, "2026-02-01": 8.0}
    booked = [await world.costs.lines(month) for month in ("2026-01", "2026-02")]
    assert [{line.day for line in lines} for lines in booked] == [{"2026-01-31"}, {"2026-02-01"}]
    assert await world.costs.experiments_usd([10, 11]) == {10: pytest.approx(16.0)}


async def test_machines_of_months_long_past_are_summed_up(world: World) -> None:
    for number in range(20):
        name = f"m{number}"
        await world.ran(f"a{number}", 1, name, 4, 60, HOUR)
        await world.save(gone(machine(name), START + HOUR))
    world.clock.advance(2 * HOUR)
    await world.costs.record()
    before = await world.sums(lambda x: (x.month, x.job_id, x.kind, x.experiment_id))
    assert len(await world.costs.lines()) == 40
    await world.costs.roll_up()
    assert len(await world.costs.lines()) == 40
    world.clock.advance(100 * 86400)
    await world.costs.roll_up()
    await world.costs.roll_up()
    assert len(await world.costs.lines()) == 21
    assert await world.sums(lambda x: (x.month, x.job_id, x.kind, x.experiment_id)) == before


async def test_a_machine_is_not_booked_each_minute(world: World) -> None:
    await world.save(machine())
    await world.ran("a", 1, "m", 4, 60, None)
    world.clock.advance(120)
    await world.costs.record()
    booked = select(FleetInstance.booked_until)
    assert await world.store.read(booked) == [START + 60]
    world.clock.advance(1800)
    await world.costs.record()
    assert await world.store.read(booked) == [START + 60]
    assert await world.sums(lambda x: x.job_id) == {"": 8 / 60, "job-a": 8 * 1860 / HOUR}
    world.clock.advance(1800)
    await world.costs.record()
    assert await world.store.read(booked) == [START + 3660]


async def test_what_a_run_cost_is_booked_before_anybody_can_delete_it(world: World) -> None:
    await world.save(machine())
    await world.ran("a", 1, "m", 4, 60, 600)
    world.clock.advance(700)
    await world.costs.record()
    unit = UnitOfWork()
    unit.delete(Allocation, {"task_id": "a"})
    unit.delete(Task, {"id": "a"})
    await world.store.commit(unit)
    world.clock.advance(HOUR)
    for costs in (world.costs, CostRecorder(world.store, world.clock)):
        lines = await costs.lines()
        assert sum(x.usd for x in lines if x.job_id == "job-a") == pytest.approx(8 * 540 / HOUR)


async def test_work_that_fell_back_costs_in_the_pool_where_it_ran(world: World) -> None:
    await world.save(replace(machine(), pool="other"))
    await world.ran("a", 1, "m", 4, 60, None, granted_pool="other")
    world.clock.advance(HOUR)
    found = {("other", "", None): 8 / 60, ("other", "job-a", 10): 8 * 59 / 60}
    assert await world.sums(lambda x: (x.pool, x.job_id, x.experiment_id)) == found
    await CostRecorder(world.store, world.clock).record()
    again = World(world.store, world.clock)
    assert await again.sums(lambda x: (x.pool, x.job_id, x.experiment_id)) == found
    assert await again.costs.usd_per_hour(10) == pytest.approx(8.0)


async def test_a_clock_that_is_set_back_loses_no_run(world: World) -> None:
    await world.save(machine())
    world.clock.advance(HOUR)
    assert await world.sums(lambda x: x.job_id) == {"": 8.0}
    world.clock.advance(-1800)
    await world.ran("a", 1, "m", 4, 60, 1200)
    assert await world.sums(lambda x: x.job_id) == {"": 8 * 660 / HOUR, "job-a": 8 * 1140 / HOUR}


@pytest.mark.parametrize("by", GroupBy)
async def test_the_database_sums_up_as_we_do(world: World, by: GroupBy) -> None:
    await world.save(machine(), machine("n"))
    await world.ran("a", 1, "m", 2, 60, 600)
    await world.ran("b", 2, "n", 4, 60, None)
    world.clock.advance(HOUR)
    whole = condensed(await world.costs.lines(), KEYS[by])
    await world.costs.record()
    again = condensed(await world.costs.lines(keys=KEYS[by]), KEYS[by])

    def shown(lines: list[CostLine]) -> dict[str, Any]:
        bare = {str(replace(x, usd=0, hours=0)): x for x in lines}
        return {name: (round(x.usd, 6), round(x.hours, 6)) for name, x in bare.items()}

    assert shown(again) == shown(whole)


async def test_what_is_kept_up_is_what_would_be_read_anew(world: World) -> None:
    """Runs and machines come, change and go in any order; some are booked meanwhile."""
    chance = random.Random(7)
    for turn in range(40):
        world.clock.advance(chance.choice([5, 30, 70, 400]))
        now = world.clock.now().timestamp()
        at = now - START
        name = f"m{chance.randrange(4)}"
        match chance.randrange(4):
            case 0:
                await world.save(machine(name, created_at=START, ready_at=START + 60))
            case 1:
                await world.ran(f"r{turn}", 1, name, 1, max(0.0, at - 300), None)
            case 2:
                await world.ran(f"r{turn}", 2, name, 1, max(0.0, at - 50), at)
            case 3:
                await world.costs.record()
        anew = CostRecorder(world.store, world.clock)
        await world.costs.record() if chance.random() < 0.2 else None

        def shown(lines: list[CostLine]) -> dict[Any, Any]:
            sums: dict[Any, float] = {}
            for x in lines:
                key = (x.instance_id, x.job_id, x.kind, x.user_id)
                sums[key] = sums.get(key, 0.0) + x.usd
            return {key: round(usd, 9) for key, usd in sums.items()}

        assert shown(await anew.lines()) == shown(await _now(world))


async def _now(world: World) -> list[CostLine]:
    """Not what served the last reader."""
    world.costs._unbooked.at = float("-inf")
    return await world.costs.lines()
