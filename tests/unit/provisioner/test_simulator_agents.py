"""Simulated pools of agents that are always there: outcomes worked out by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from master.core.fall_back import NOWHERE, FallBackRule
from master.core.scheduler.types import SchedulerSettings
from provisioner.simulator.machines import Outage, Supply
from provisioner.simulator.replay import ClusterPlan, Played, PoolPlan, play
from provisioner.simulator.report import summary, tables
from provisioner.simulator.trace import TraceJob
from provisioner.types import PoolSettings
from tests.fakes.fleet_world import an_offer
from windlass.base.errors import InvalidConfig

BOOT_S, AFTER_S, HOUR_S = 60.0, 300.0, 3600.0
CLOUD = an_offer(4, 8.0, boot_s=BOOT_S)


def a_plan(
    *outages: Outage, agents: tuple[int, ...] = (2, 2), max_instances: int = 4
) -> ClusterPlan:
    """A rack and a cloud that fall back to each other."""
    rack = PoolPlan(
        settings=PoolSettings(pool="rack", max_instances=0),
        scheduler=SchedulerSettings(),
        agents=agents,
        falls_back=FallBackRule(pools=("cloud",), after_s=AFTER_S),
    )
    cloud = PoolPlan(
        settings=PoolSettings(pool="cloud", max_instances=max_instances),
        scheduler=SchedulerSettings(),
        offers=[CLOUD],
        falls_back=FallBackRule(pools=("rack",), after_s=AFTER_S),
    )
    return ClusterPlan(
        pools=[rack, cloud], default_pool="rack", supply=Supply(stock={}, outages=outages)
    )


def a_job(name: str, slots: int = 2, **more: object) -> TraceJob:
    values: dict[str, object] = {"arrival_s": 0.0, "duration_s": HOUR_S, **more}
    return TraceJob(job_id=name, slots=slots, **values)  # type: ignore[arg-type]


def played(plan: ClusterPlan, *jobs: TraceJob) -> Played:
    return asyncio.run(play(plan, jobs))


def test_agents_that_are_there_start_work_at_once_and_cost_nothing_more() -> None:
    result = played(a_plan(), a_job("a"), a_job("b"), a_job("c"))
    assert {j.job.job_id: j.waited_s for j in result.jobs} == {"a": 0.0, "b": 0.0, "c": HOUR_S}
    assert {job.ran_in for job in result.jobs} == {"rack"}, "a queue is no reason to fall back"
    told = summary(result)
    assert (told.usd, told.busy_usd, told.least_usd, told.machines) == (0.0, 0.0, 0.0, 0)
    columns, rows = tables(result)["timeline.csv"]
    assert {row[columns.index("up_slots")] for row in rows} == {4}
    assert {row[columns.index("booting")] for row in rows} == {0}


def test_what_no_agent_can_hold_falls_back_to_the_cloud_at_once() -> None:
    result = played(a_plan(), a_job("big", 4, single_agent=True))
    (job,) = result.jobs
    assert (job.ran_in, job.away_runs) == ("cloud", 1)
    assert BOOT_S <= job.waited_s < AFTER_S
    assert summary(result).machines == 1


def test_a_gang_over_agents_takes_them_whole() -> None:
    (job,) = played(a_plan(), a_job("wide", 4)).jobs
    assert (job.ran_in, job.waited_s) == ("rack", 0.0)


def test_a_cloud_without_stock_falls_back_to_the_agents() -> None:
    out = Outage(from_s=0.0, until_s=100_000.0)
    result = played(a_plan(out), a_job("a", pool="cloud"))
    (job,) = result.jobs
    assert job.ran_in == "rack"
    assert job.waited_s == pytest.approx(AFTER_S)
    assert summary(result).usd == 0.0


def test_what_neither_can_hold_is_refused() -> None:
    result = played(a_plan(max_instances=0), a_job("a", 3, single_agent=True))
    ((_, why),) = result.refused
    assert why == "its agents cannot hold 3 slots (2 of 2 slots)"


def test_the_least_cost_leaves_out_what_the_agents_could_have_done_meanwhile() -> None:
    """Four slots for the hour that it takes from the first arrival to the last end; the rest costs what it costs."""
    jobs = [a_job("a", 4, pool="cloud"), a_job("b", 4, pool="cloud")]
    told = summary(played(a_plan(max_instances=4), *jobs))
    meanwhile_s = told.makespan_s
    assert meanwhile_s == pytest.approx(HOUR_S + BOOT_S)
    slot_hours = 8.0 - 4.0 * meanwhile_s / HOUR_S
    assert told.least_usd == pytest.approx(2.0 * slot_hours)
    assert told.least_usd < told.usd


def test_agents_of_a_pool_without_offers_need_no_provider() -> None:
    plan = a_plan()
    rack = replace(plan.pools[0], falls_back=NOWHERE)
    alone = ClusterPlan(pools=[rack], default_pool="rack")
    result = played(alone, a_job("a"), a_job("b"), a_job("c"))
    assert len(result.jobs) == 3


def test_a_job_of_a_pool_that_is_not_simulated_is_told() -> None:
    with pytest.raises(InvalidConfig, match="there is no pool 'other' to simulate"):
        played(a_plan(), a_job("a", pool="other"))
