"""What the costs of costs take of a master with 1,000 and 10,000 machines, each with one run on it.

`steady`: the costs again, when almost nothing has changed: one machine in a hundred has since ended its run and began
another. `held`: the longest that the event loop was held. Times are CPU of this process; budgets are ratios: a steady
pass costs at most a fifth of the first, and no step holds the loop for more than 20 ms.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from master.allocations.machine import AllocationPhase, AllocationState, ContainerProgress
from master.allocations.outcome import Outcome
from master.allocations.outcome import OutcomeKind as O
from master.allocations.persistence import allocation_changes
from master.costs.recorder import CostRecorder
from master.store.repositories.fleet import FleetRepository
from master.store.store import Store
from master.store.tables import Task, User
from master.store.unit_of_work import UnitOfWork
from provisioner.fleet.instances import InstanceRecord, InstanceState, instance_document
from provisioner.types import Offer, OfferKey
from rm_backends.base import Container
from windlass.base.clock import ManualClock

OFFER = Offer(key=OfferKey(provider="cloud"), slots=8, usd_per_hour=8.0, boot_s=60.0)
STEP_S = 0.001
HELD_BUDGET_MS = 20.0
"""On a machine as fast as the calibration says."""


async def measured(call: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """CPU seconds of the process, and the most of it that the loop's thread took without a pause."""
    held, over = 0.0, False

    async def watch() -> None:
        nonlocal held
        while not over:
            begun = time.thread_time()
            await asyncio.sleep(STEP_S)
            held = max(held, time.thread_time() - begun)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(2 * STEP_S)
    begun = time.process_time()
    await call()
    cpu = time.process_time() - begun
    over = True
    await watching
    return cpu, held


def record(number: int, now: float) -> InstanceRecord:
    return InstanceRecord(
        id=f"i-{number}",
        pool=f"pool-{number % 4}",
        offer=OFFER,
        intent_id="n",
        generation=1,
        state=InstanceState.READY,
        created_at=now,
        ready_at=now,
    )


def run(name: str, agent: str, at: datetime, end: datetime | None = None) -> AllocationState:
    container = Container(
        container_id=f"c-{name}", agent_id=agent, rank=0, slot_ids=tuple(range(8))
    )
    return AllocationState(
        id=f"{name}.1",
        task_id=name,
        run_id=1,
        pool="gpu",
        slots=8,
        requested_at=at,
        started_at=at,
        ended_at=end,
        phase=AllocationPhase.RUNNING,
        containers=(ContainerProgress(container=container),),
        outcome=None if end is None else Outcome(kind=O.FINISHED, reason="done"),
    )


def task(unit: UnitOfWork, name: str, number: int, at: datetime) -> None:
    row = {"id": name, "type": "TRIAL", "job_id": f"job-{number % 500}", "owner_id": 1}
    unit.insert(Task, row | {"experiment_id": number % 500, "created_at": at})


async def populate(store: Store, clock: ManualClock, machines: int) -> None:
    now = clock.now()
    unit = UnitOfWork()
    user = {"id": 1, "username": "ann", "admin": False, "active": True}
    unit.insert(User, user | {"created_at": now, "modified_at": now})
    for number in range(machines):
        task(unit, f"t{number}", number, now)
        allocation_changes(unit, None, run(f"t{number}", f"i-{number}", now))
    await store.commit(unit)


async def churn(store: Store, clock: ManualClock, machines: int, turn: int) -> None:
    """One run in a hundred ends, and another begins in its place."""
    now = clock.now()
    unit = UnitOfWork()
    for number in range(turn, machines, 100):
        old = run(f"t{number}", f"i-{number}", datetime(2026, 1, 1, tzinfo=UTC))
        allocation_changes(
            unit, old, replace(old, ended_at=now, outcome=Outcome(kind=O.FINISHED, reason="done"))
        )
        name = f"t{number}-{turn}"
        task(unit, name, number, now)
        allocation_changes(unit, None, run(name, f"i-{number}", now))
    await store.commit(unit)


async def costs_with(machines: int) -> dict[str, tuple[float, float]]:
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        store = await Store.open(f"sqlite:///{Path(folder) / 'state.db'}", clock=clock)
        await store.take_lease("bench")
        writing = asyncio.create_task(store.run())
        costs = CostRecorder(store, clock)
        fleet = FleetRepository(store, costs.note)
        await populate(store, clock, machines)
        start = clock.now().timestamp()
        records = [record(number, start) for number in range(machines)]
        await fleet.save(instances=[(r.id, r.pool, r.told, instance_document(r)) for r in records])
        clock.advance(600)
        found = {"first record": await measured(costs.record)}
        for turn in range(2):
            clock.advance(60)
            await churn(store, clock, machines, turn)
            found["steady record"] = await measured(costs.record)
        clock.advance(6)
        found["costs by pool"] = await measured(lambda: costs.lines(clock.now().strftime("%Y-%m")))
        clock.advance(6)
        found["cost of one experiment"] = await measured(lambda: costs.lines(experiment_id=7))
        found["the same again"] = await measured(lambda: costs.lines(experiment_id=7))
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await store.close()
        return found


def main() -> None:
    arguments(__doc__).parse_args()
    print_calibration()
    small, large = (
        asyncio.run(costs_with(sized(1_000, 20))),
        asyncio.run(costs_with(sized(10_000, 50))),
    )
    print(f"{'costs of':<24} {'1,000':>10} {'10,000':>10} {'exponent':>9} {'held':>9}")
    for name, (cpu, held) in large.items():
        before = small[name][0]
        exponent = math.log10(max(cpu, 1e-6) / max(before, 1e-6))
        print(
            f"{name:<24} {1000 * before:>7.1f} ms {1000 * cpu:>7.1f} ms {exponent:>9.2f} {1000 * held:>6.1f} ms"
        )


if __name__ == "__main__":
    main()
