"""What a user is told to do about a job that waits."""

from __future__ import annotations

from typing import Any

import pytest
from jobs_queue_world import BEHIND, FAIR_SHARE, PRIORITY, ROUND_ROBIN, entry, facts, pool_view

from master.core.jobs import JobType
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.types import SchedulerSettings
from master.jobs.explain import Explanation, HoldingRun, Situation, advise
from master.jobs.ports import JobFacts
from master.jobs.queue import QueuedJob, jobs_in_queue
from rm_backends.views import jobs_of


def queued(job: JobFacts, settings: SchedulerSettings, held: int = 0) -> QueuedJob:
    """The second of three jobs; `held` of its slots are allocated."""
    first, last = facts("first", -60), facts("last", 3600)
    own = [entry(job, 1)] + [entry(job, 2, slots=held, state="scheduled")] * bool(held)
    entries = [entry(first), *own, entry(last)]
    by_id = {one.job_id: one for one in (first, job, last)}
    return next(
        one
        for one in jobs_in_queue("gpu", jobs_of(entries), by_id, settings)
        if one.facts.job_id == job.job_id
    )


def advice(
    kind: ReasonKind,
    settings: SchedulerSettings = PRIORITY,
    *,
    dynamic: bool = False,
    held: int = 0,
    slots: int = 4,
    used: int = 0,
    pool_type: str = "static",
    **changes: Any,
) -> str:
    job = facts("job", **changes)
    situation = Situation(
        facts=job,
        queued=queued(job, settings, held),
        where="gpu",
        pool=pool_view("gpu", settings, dynamic=dynamic, used=used, type_=pool_type),
        slots=slots,
    )
    return advise(Reason(kind=kind, text=""), situation)


@pytest.mark.parametrize("kind", ReasonKind)
@pytest.mark.parametrize("pool_type", ["slurm", "pbs"])
def test_work_that_waits_for_batch_jobs_is_told_of_no_instances(
    kind: ReasonKind, pool_type: str
) -> None:
    said = advice(kind, dynamic=True, pool_type=pool_type)
    words = (
        "instance type",
        "an instance",
        "instances are free",
        "from the provider",
        "add agents",
    )
    assert not any(word in said for word in words), said


@pytest.mark.parametrize("kind", ReasonKind)
@pytest.mark.parametrize("type_", JobType)
def test_there_is_advice_for_every_reason(kind: ReasonKind, type_: JobType) -> None:
    said = advice(kind, type=type_)
    assert said
    assert ("another pool" in said) <= (type_ is JobType.EXPERIMENT)
    job = facts("job", type=type_)
    homeless = Situation(facts=job, queued=None, where="gpu", pool=None, slots=None)
    assert advise(Reason(kind=kind, text=""), homeless)


def test_what_helps_a_queued_job_depends_on_the_scheduler() -> None:
    said = advice(ReasonKind.QUEUED, priority=50)
    assert "1 job ahead" not in said, "the one of priority 42 that came later is ahead too"
    assert said.startswith("wait for the 2 jobs ahead of it")
    assert "more important priority than 50 (1 is the most important)" in said
    assert "the first in the queue" in advice(ReasonKind.QUEUED, priority=1)
    assert "raise its weight of 2.5" in advice(ReasonKind.QUEUED, FAIR_SHARE, weight=2.5)
    assert "take turns" in advice(ReasonKind.QUEUED, ROUND_ROBIN)


def test_a_used_share_is_told_from_used_max_slots() -> None:
    """The job waits for one slot with its first run, holds `held` with its second, and is asked about `slots`."""
    both = "wait until other allocations end, or raise its max_slots of 4 and its weight of 1"
    for settings, limit, slots, held, expected in (
        (FAIR_SHARE, 2, 4, 0, "raise its max_slots of 2"),
        (FAIR_SHARE, 4, 1, 4, "raise its max_slots of 4, or wait until its other allocations end"),
        (FAIR_SHARE, 4, 0, 4, both),
        (FAIR_SHARE, 8, 4, 4, "wait until other jobs release slots, or raise its weight of 1"),
        (FAIR_SHARE, None, 4, 4, "wait until other jobs release slots, or raise its weight of 1"),
        (PRIORITY, 8, 1, 0, "raise its max_slots of 8"),
        (PRIORITY, 8, 1, 4, "raise its max_slots of 8, or wait until its other allocations end"),
    ):
        said = advice(ReasonKind.SHARE_USED, settings, max_slots=limit, slots=slots, held=held)
        assert said == expected


def test_a_larger_weight_helps_only_against_others() -> None:
    """`used`: the slots of the pool that are held by all jobs together."""
    for kind in (ReasonKind.SHARE_USED, ReasonKind.QUEUED):
        alone = advice(kind, FAIR_SHARE, slots=1, held=4, used=4)
        assert alone.startswith("wait until its other allocations end, or add agents to pool gpu")
        assert "weight" not in alone
        assert "raise its weight" in advice(kind, FAIR_SHARE, slots=1, held=4, used=5)
        assert "raise its weight" in advice(kind, FAIR_SHARE, slots=1, held=0, used=0)


def test_capacity_is_launched_or_added() -> None:
    assert "launches machines" in advice(ReasonKind.NEEDS_CAPACITY, dynamic=True)
    assert "add agents to pool gpu" in advice(ReasonKind.NEEDS_CAPACITY)
    said = advice(ReasonKind.NO_SUCH_AGENT)
    assert (
        "add agents that can hold 4 slots to pool gpu, or reconnect or enable those that are away or disabled"
        in said
    )
    assert "request fewer slots" in said
    assert "fewer" not in advice(ReasonKind.NO_SUCH_AGENT, slots=1)
    assert "max_instances of pool gpu" in advice(ReasonKind.AT_LIMIT)
    assert "budget of pool gpu" in advice(ReasonKind.OVER_BUDGET)


def explained(**changes: Any) -> str:
    job = facts("job")
    values: dict[str, Any] = {"waiting": (), "waiting_total": 0, "holding": (), "queued": None}
    return Explanation(facts=job, **{**values, **changes}).text


def test_a_job_in_one_line() -> None:
    job = queued(facts("job"), PRIORITY)
    holding = HoldingRun(
        allocation_id="job.2",
        name="Trial 2",
        slots=2,
        since=None,
        placement={"node": 2},
        is_releasing=False,
        pool="gpu",
    )
    assert explained() == "requests no slots now: it is paused, or between two allocations"
    assert explained(queued=job, waiting_total=3) == "3 requests waiting for slots, 1 job ahead"
    assert explained(queued=job, holding=(holding,)) == "holds 2 slots"
    assert explained(holding=(holding,)) == "holds 2 slots", "in the pool that it is leaving"
    fair = queued(facts("job"), FAIR_SHARE)
    said = explained(queued=fair, waiting_total=1, holding=(holding,))
    assert said == "holds 2 slots, 1 request waiting for slots"
    assert BEHIND.text not in said
