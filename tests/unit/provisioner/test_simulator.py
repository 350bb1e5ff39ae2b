"""Simulations of small traces whose outcome can be worked out by hand, and what holds for all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from master.core.scheduler.types import SchedulerSettings, SchedulerType
from provisioner.money.budgets import Budget
from provisioner.planning.scale_down.disruption import Disruption
from provisioner.simulator.machines import Outage, Supply
from provisioner.simulator.replay import ClusterPlan, Played, PoolPlan, play
from provisioner.simulator.report import JOB_COLUMNS, Summary, least_wait_s, summary, tables
from provisioner.simulator.trace import TraceJob
from provisioner.simulator.work import WorkModel
from provisioner.types import Market, Offer, PoolSettings
from tests.fakes.fleet_world import an_offer
from windlass.base.errors import InvalidConfig

BOOT_S, IDLE_S = 60.0, 300.0
ONE, FOUR = an_offer(1, 1.0, boot_s=BOOT_S), an_offer(4, 4.0, boot_s=BOOT_S)


def a_plan(
    *offers: Offer, max_instances: int = 10, supply: Supply | None = None, **more: Any
) -> ClusterPlan:
    settings = PoolSettings(pool="gpu", max_instances=max_instances, max_idle_s=IDLE_S)
    pool = PoolPlan(
        settings=settings, scheduler=more.pop("scheduler", SchedulerSettings()), offers=offers
    )
    return ClusterPlan(pools=[pool], default_pool="gpu", supply=supply or Supply(stock={}), **more)


def a_job(name: str, arrival_s: float, slots: int, duration_s: float, **more: Any) -> TraceJob:
    return TraceJob(job_id=name, arrival_s=arrival_s, slots=slots, duration_s=duration_s, **more)


def played(plan: ClusterPlan, *jobs: TraceJob) -> tuple[Played, Summary]:
    result = asyncio.run(play(plan, jobs))
    return result, summary(result)


def waits(result: Played) -> dict[str, float]:
    return {job.job.job_id: round(job.waited_s, 6) for job in result.jobs}


def test_one_job_waits_for_a_boot_and_its_machine_goes_when_idle() -> None:
    result, told = played(a_plan(ONE), a_job("a", 10.0, 1, 3600.0))
    assert waits(result) == {"a": BOOT_S}
    (machine,) = result.machines
    assert machine.created_s == 10.0
    assert machine.ended_s == pytest.approx(10.0 + BOOT_S + 3600.0 + IDLE_S)
    assert told.usd == pytest.approx((BOOT_S + 3600.0 + IDLE_S) / 3600.0)
    assert told.busy_usd == pytest.approx(1.0)
    assert told.least_usd == pytest.approx(1.0)
    assert told.boot_usd == pytest.approx(BOOT_S / 3600.0)
    assert told.idle_usd == pytest.approx(IDLE_S / 3600.0)
    assert told.unused_usd == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("boot_s", [60.0, 180.0, 181.3])
def test_an_idle_machine_goes_when_a_boot_would_have_been_cheaper(boot_s: float) -> None:
    offer = an_offer(1, 1.0, boot_s=boot_s)
    plan = a_plan(offer)
    (pool,) = plan.pools
    auto = replace(pool, settings=replace(pool.settings, idle_auto=True, max_idle_s=1800.0))
    result, _ = played(
        replace(plan, pools=[auto]), a_job("a", 10.0, 1, 3600.0), a_job("b", 9000.0, 1, 60.0)
    )
    first, _ = sorted(result.machines, key=lambda machine: machine.created_s)
    assert first.ended_s == pytest.approx(10.0 + boot_s + 3600.0 + 1.1 * boot_s, abs=0.01)


def test_the_next_job_takes_an_idle_machine() -> None:
    result, told = played(
        a_plan(ONE), a_job("a", 0.0, 1, 100.0), a_job("b", BOOT_S + 100.0 + IDLE_S - 1, 1, 50.0)
    )
    assert waits(result) == {"a": BOOT_S, "b": 0.0}
    assert told.machines == 1


def test_packing_frees_a_machine_whose_work_fits_elsewhere() -> None:
    """Two halves of machines of four: one run moves to the other's, and redoes nothing."""
    jobs = [
        a_job("a", 0.0, 2, 40_000.0),
        a_job("x", 1.0, 2, 4_000.0),
        a_job("b", 2.0, 2, 40_000.0),
        a_job("y", 3.0, 2, 4_000.0),
    ]
    plan = a_plan(FOUR)
    (pool,) = plan.pools
    packing = replace(pool, settings=replace(pool.settings, disruption=Disruption(packing=True)))
    _, before = played(plan, *jobs)
    result, told = played(replace(plan, pools=[packing]), *jobs)
    assert told.usd < 0.65 * before.usd
    assert sum(job.runs for job in result.jobs) == 5
    moved = next(job for job in result.jobs if job.runs == 2)
    assert moved.redone_s < 200.0
    ends = sorted(machine.ended_s or 0.0 for machine in result.machines)
    assert ends[0] < 6_000.0
    assert ends[1] > 40_000.0


def test_free_slots_beside_work_are_told_from_idle_machines() -> None:
    _, told = played(a_plan(FOUR), a_job("a", 0.0, 1, 3600.0))
    assert told.busy_usd == pytest.approx(1.0)
    assert told.unused_usd == pytest.approx(3.0)
    assert told.idle_usd == pytest.approx(4.0 * IDLE_S / 3600.0)


def test_a_full_pool_makes_jobs_wait_for_each_other() -> None:
    result, told = played(
        a_plan(ONE, max_instances=1), a_job("a", 0.0, 1, 1000.0), a_job("b", 0.0, 1, 1000.0)
    )
    assert sorted(waits(result).values()) == [BOOT_S, pytest.approx(BOOT_S + 1000.0)]
    assert told.most_machines == 1


def test_a_gang_runs_over_several_machines() -> None:
    result, told = played(a_plan(FOUR), a_job("a", 0.0, 8, 3600.0))
    assert waits(result) == {"a": BOOT_S}
    assert told.most_machines == 2
    assert told.busy_usd == pytest.approx(8.0)


def test_what_can_never_run_is_refused_with_the_nearest_size() -> None:
    result, told = played(
        a_plan(FOUR, max_instances=2), a_job("a", 0.0, 6, 1.0), a_job("b", 0.0, 12, 1.0)
    )
    assert [(job.job_id, why) for job, why in result.refused] == [
        ("a", "no instance type of the pool fits 6 slots; the nearest that fits is 4"),
        ("b", "needs 3 instances; max_instances is 2"),
    ]
    assert told.refused_jobs == 2


def test_a_zone_that_is_out_of_stock_is_passed_over_for_the_next() -> None:
    near, far = an_offer(1, 1.0, zone="a", boot_s=BOOT_S), an_offer(1, 1.1, zone="b", boot_s=BOOT_S)
    supply = Supply(stock={}, outages=[Outage(from_s=0.0, until_s=1e6, zone="a")])
    result, told = played(a_plan(near, far, supply=supply), a_job("a", 0.0, 1, 100.0))
    assert [machine.offer.key.zone for machine in result.machines] == ["b"]
    assert told.refused_launches == 1
    assert waits(result)["a"] < BOOT_S + 10.0


def test_without_another_zone_the_job_waits_until_the_stock_is_back() -> None:
    supply = Supply(stock={}, outages=[Outage(from_s=0.0, until_s=1800.0)])
    result, told = played(a_plan(ONE, supply=supply), a_job("a", 0.0, 1, 100.0))
    assert 1800.0 + BOOT_S <= waits(result)["a"] <= 1800.0 + 1200.0 + BOOT_S
    assert 1 < told.refused_launches < 10


def test_no_more_than_the_stock_is_launched() -> None:
    jobs = [a_job(name, 0.0, 1, 500.0) for name in "abc"]
    _, told = played(a_plan(ONE, supply=Supply(stock={ONE.key: 2})), *jobs)
    assert (told.most_machines, told.jobs) == (2, 3)


SPOT = replace(an_offer(1, 1.0, market=Market.SPOT, boot_s=BOOT_S), interruptions_per_hour=1.0)


def test_interrupted_work_checkpoints_within_the_notice_and_goes_on() -> None:
    result, told = played(a_plan(SPOT, seed=3), a_job("a", 0.0, 1, 10 * 3600.0))
    (job,) = result.jobs
    assert told.interruptions == job.runs - 1 > 0
    model = WorkModel()
    each = model.checkpoint_s + model.restart_s
    assert job.redone_s == pytest.approx((job.runs - 1) * each)
    assert job.done_s == pytest.approx(10 * 3600.0)


def test_without_time_to_checkpoint_the_work_since_the_last_one_is_done_again() -> None:
    plan = a_plan(SPOT, seed=3, supply=Supply(stock={}, notice_s=1.0))
    result, _ = played(plan, a_job("a", 0.0, 1, 10 * 3600.0))
    (job,) = result.jobs
    assert job.redone_s > (job.runs - 1) * WorkModel().restart_s + 60.0
    assert job.done_s == pytest.approx(10 * 3600.0)


def test_what_cannot_be_preempted_begins_again() -> None:
    result, _ = played(a_plan(SPOT, seed=3), a_job("a", 0.0, 1, 1800.0, preemptible=False))
    (job,) = result.jobs
    assert job.done_s == pytest.approx(1800.0)


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["warm_agents", "min_instances"])
def test_spot_machines_that_are_kept_do_not_come_and_go_for_ever(kept: str) -> None:
    plan = a_plan(SPOT, max_instances=200, seed=3)
    (pool,) = plan.pools
    settings = replace(pool.settings, **{kept: 30})
    result, told = played(
        replace(plan, pools=[replace(pool, settings=settings)]), a_job("a", 0.0, 1, 3600.0)
    )
    (job,) = result.jobs
    assert told.interruptions > 0
    assert job.ended_s is not None
    assert result.ended_s - job.ended_s < WorkModel().checkpoint_s + 2 * BOOT_S + IDLE_S


def test_a_job_of_a_pool_that_is_not_there() -> None:
    with pytest.raises(InvalidConfig, match=r"job a: there is no pool 'cpu' to simulate \(gpu\)"):
        played(a_plan(ONE), a_job("a", 0.0, 1, 1.0, pool="cpu"))


def test_work_that_would_wait_for_ever_is_told() -> None:
    plan = a_plan(ONE)
    (pool,) = plan.pools
    poor = replace(pool, settings=replace(pool.settings, budget=Budget(usd_per_hour=0.5)))
    with pytest.raises(InvalidConfig, match=r"job a would wait for ever: .*budget"):
        played(replace(plan, pools=[poor]), a_job("a", 0.0, 1, 1.0))


def test_the_least_wait_counts_jobs_that_raise_the_slots_wanted() -> None:
    jobs = [a_job("a", 0.0, 1, 100.0), a_job("b", 50.0, 1, 100.0), a_job("c", 200.0, 2, 10.0)]
    assert least_wait_s(a_plan(ONE), jobs) == pytest.approx(BOOT_S * 2 / 3)


def test_tables_have_a_row_for_each_job_and_machine() -> None:
    result, told = played(a_plan(ONE), a_job("a", 0.0, 1, 10.0), a_job("b", 0.0, 1, 10.0))
    written = tables(result)
    columns, rows = written["jobs.csv"]
    assert columns == JOB_COLUMNS
    assert all(len(row) == len(columns) for row in rows)
    assert len(rows) == 2
    machine_columns, machines = written["machines.csv"]
    usd = [row[machine_columns.index("usd")] for row in machines]
    assert sum(float(str(each)) for each in usd) == pytest.approx(told.usd, abs=1e-5)


random_jobs = st.lists(
    st.tuples(
        st.integers(0, 4000), st.sampled_from([1, 2, 4, 8]), st.integers(1, 5000), st.booleans()
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@given(
    given_jobs=random_jobs,
    scheduler=st.sampled_from(get_args(SchedulerType)),
    max_instances=st.integers(2, 4),
    seed=st.integers(0, 3),
)
@example(  # the free machine that the larger job needs beside a new one was kept for the smaller
    given_jobs=[(1697, 1, 1966, True), (1226, 8, 2740, False)],
    scheduler="priority",
    max_instances=2,
    seed=3,
)
def test_any_trace(
    given_jobs: Sequence[tuple[int, int, int, bool]],
    scheduler: SchedulerType,
    max_instances: int,
    seed: int,
) -> None:
    jobs = [
        a_job(str(n), float(at), slots, float(runs), preemptible=may)
        for n, (at, slots, runs, may) in enumerate(sorted(given_jobs))
    ]
    spot = replace(an_offer(4, 2.0, market=Market.SPOT, boot_s=BOOT_S), interruptions_per_hour=0.5)
    plan = a_plan(
        FOUR,
        spot,
        max_instances=max_instances,
        scheduler=SchedulerSettings(type=scheduler),
        supply=Supply(stock={spot.key: 1}, outages=[Outage(from_s=1000.0, until_s=2000.0)]),
        seed=seed,
    )
    result, told = played(plan, *jobs)
    assert sorted(job.job.job_id for job in result.jobs) == sorted(job.job_id for job in jobs)
    assert all(job.done_s == pytest.approx(job.job.duration_s) for job in result.jobs)
    assert all(job.waited_s >= 0 for job in result.jobs)
    assert told.most_machines <= max_instances
    assert all(machine.ended_s is not None for machine in result.machines)
    parts = told.busy_usd + told.boot_usd + told.idle_usd + told.unused_usd + told.stopped_usd
    assert parts == pytest.approx(told.usd)
    assert told.busy_usd - told.redone_usd >= told.least_usd - 1e-6
    assert summary(asyncio.run(play(plan, jobs))) == told  # the same seed, the same outcome
