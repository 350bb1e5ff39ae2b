"""Simulated jobs that fall back to other pools: outcomes worked out by hand, and what holds for all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.fall_back import REST_S, FallBackRule
from master.core.scheduler.types import SchedulerSettings, SchedulerType
from provisioner.simulator.machines import Outage, Supply
from provisioner.simulator.replay import ClusterPlan, Played, PoolPlan, play
from provisioner.simulator.report import JOB_COLUMNS, summary, tables
from provisioner.simulator.trace import TraceJob
from provisioner.types import Market, Offer, PoolSettings
from tests.examples import examples
from tests.fakes.fleet_world import an_offer
from windlass.base.errors import InvalidConfig

BOOT_S, AFTER_S, LONG_S = 60.0, 300.0, 100_000.0
HOME = an_offer(1, 1.0, zone="home", boot_s=BOOT_S)
OTHER = an_offer(2, 4.0, zone="other", boot_s=BOOT_S)


def a_pool(name: str, offer: Offer, *falls_back_to: str, **more: Any) -> PoolPlan:
    return PoolPlan(
        settings=PoolSettings(pool=name, max_instances=more.pop("max_instances", 4)),
        scheduler=more.pop("scheduler", SchedulerSettings()),
        offers=[offer],
        falls_back=FallBackRule(pools=falls_back_to, after_s=AFTER_S),
    )


def a_plan(*outages: Outage, pools: Sequence[PoolPlan] | None = None, **more: Any) -> ClusterPlan:
    usual = [a_pool("home", HOME, "other"), a_pool("other", OTHER)]
    supply = Supply(stock=more.pop("stock", {}), outages=outages)
    return ClusterPlan(
        pools=usual if pools is None else pools, default_pool="home", supply=supply, **more
    )


def a_job(name: str, slots: int = 1, arrival_s: float = 0.0, **more: Any) -> TraceJob:
    seconds = more.pop("duration_s", 3600.0)
    return TraceJob(job_id=name, arrival_s=arrival_s, slots=slots, duration_s=seconds, **more)


def played(plan: ClusterPlan, *jobs: TraceJob) -> Played:
    return asyncio.run(play(plan, jobs))


def test_without_capacity_at_home_it_runs_in_the_other_pool_when_its_time_has_come() -> None:
    result = played(a_plan(Outage(from_s=0.0, until_s=LONG_S, zone="home")), a_job("a"))
    (job,) = result.jobs
    assert (job.pool, job.ran_in, job.away_runs) == ("home", "other", 1)
    assert job.waited_s == pytest.approx(AFTER_S + BOOT_S)
    assert summary(result).fell_back == 1
    columns, rows = tables(result)["jobs.csv"]
    assert columns == JOB_COLUMNS
    assert rows[0][columns.index("ran_in")] == "other"


def test_stock_that_is_back_in_time_is_taken_at_home() -> None:
    result = played(a_plan(Outage(from_s=0.0, until_s=150.0, zone="home")), a_job("a"))
    assert [job.ran_in for job in result.jobs] == ["home"]
    assert summary(result).fell_back == 0


def test_what_its_own_pool_can_never_hold_goes_at_once_and_is_not_refused() -> None:
    result = played(a_plan(), a_job("a", slots=2, single_agent=True))
    assert not result.refused
    (job,) = result.jobs
    assert job.ran_in == "other"
    assert job.waited_s < AFTER_S


def test_what_no_pool_can_hold_is_refused() -> None:
    result = played(a_plan(), a_job("a", slots=3, single_agent=True))
    ((job, why),) = result.refused
    assert job.job_id == "a"
    assert "3 slots" in why


def test_what_is_behind_others_waits_for_them_at_home() -> None:
    """The limit of machines is a reason to leave; a queue that machines will serve is none."""
    pools = [a_pool("home", HOME, "other", max_instances=1), a_pool("other", OTHER)]
    result = played(a_plan(pools=pools), a_job("a"), a_job("b"))
    ran = {job.job.job_id: job.ran_in for job in result.jobs}
    assert sorted(ran.values()) == ["home", "other"]


def test_nobody_there_is_asked_to_leave_for_it() -> None:
    full = SchedulerSettings(type="priority", preemption=True)
    pools = [
        a_pool("home", HOME, "other"),
        a_pool("other", OTHER, max_instances=1, scheduler=full),
    ]
    out = Outage(from_s=0.0, until_s=2000.0, zone="home")
    result = played(a_plan(out, pools=pools), a_job("there", 2, pool="other"), a_job("a"))
    by_id = {job.job.job_id: job for job in result.jobs}
    assert by_id["there"].runs == 1
    assert by_id["a"].ran_in == "home", "the stock is back before the other pool is free"


def test_the_next_run_asks_at_home() -> None:
    spot = replace(
        an_offer(2, 1.0, zone="other", market=Market.SPOT, boot_s=BOOT_S),
        interruptions_per_hour=5.0,
    )
    pools = [a_pool("home", HOME, "other"), a_pool("other", spot)]
    out = Outage(from_s=0.0, until_s=1000.0, zone="home")
    result = played(a_plan(out, pools=pools, seed=3), a_job("a", duration_s=20_000.0))
    (job,) = result.jobs
    assert job.away_runs >= 1
    assert job.runs > job.away_runs
    assert job.ran_in == "home"


def test_a_pool_that_launches_and_fails_gives_it_back_after_a_rest() -> None:
    """Both were out of stock: it went where a launch was possible, and came home when that served it first."""
    outages = (
        Outage(from_s=0.0, until_s=400.0, zone="home"),
        Outage(from_s=0.0, until_s=LONG_S, zone="other"),
    )
    result = played(a_plan(*outages), a_job("a"))
    (job,) = result.jobs
    assert job.ran_in == "home"
    assert job.waited_s >= AFTER_S + REST_S


@pytest.mark.slow
def test_work_that_would_wait_for_ever_in_all_pools_is_told() -> None:
    stock = {HOME.key: 0, OTHER.key: 0}
    with pytest.raises(InvalidConfig, match="job a would wait for ever"):
        played(a_plan(stock=stock), a_job("a"))


random_jobs = st.lists(
    st.tuples(
        st.integers(0, 4000),
        st.sampled_from([1, 2, 4]),
        st.integers(1, 3000),
        st.sampled_from(["home", "other"]),
    ),
    min_size=1,
    max_size=10,
)
random_outages = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(1, 3000), st.sampled_from(["home", "other"])),
    max_size=4,
)


@settings(max_examples=examples(15))
@given(
    given_jobs=random_jobs,
    outages=random_outages,
    scheduler=st.sampled_from(get_args(SchedulerType)),
)
def test_any_trace(
    given_jobs: Sequence[tuple[int, int, int, str]],
    outages: Sequence[tuple[int, int, str]],
    scheduler: SchedulerType,
) -> None:
    one = SchedulerSettings(type=scheduler)
    pools = [
        a_pool("home", HOME, "other", scheduler=one),
        a_pool("other", OTHER, "home", scheduler=one),
    ]
    plan = a_plan(
        *(Outage(from_s=at, until_s=at + lasts, zone=zone) for at, lasts, zone in outages),
        pools=pools,
    )
    jobs = [
        a_job(str(n), slots, float(at), duration_s=float(runs), pool=pool)
        for n, (at, slots, runs, pool) in enumerate(sorted(given_jobs))
    ]
    result = played(plan, *jobs)
    assert {job.job.job_id for job in result.jobs} == {job.job_id for job in jobs}
    assert all(job.done_s == pytest.approx(job.job.duration_s) for job in result.jobs)
