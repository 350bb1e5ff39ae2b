"""The queue of a pool: order, states and numbers of its jobs, for each scheduler."""

from __future__ import annotations

import pytest
from jobs_queue_world import FAIR_SHARE, PRIORITY, ROUND_ROBIN, entry, facts

from master.core.jobs import JobType
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.types import SchedulerSettings
from master.jobs.ports import JobFacts
from master.jobs.queue import QueuedJob, is_preemptible, jobs_in_queue
from rm_backends.views import QueueEntry, QueueState, jobs_of


def listed(
    settings: SchedulerSettings, entries: list[QueueEntry], *jobs: JobFacts
) -> list[QueuedJob]:
    return jobs_in_queue("gpu", jobs_of(entries), {job.job_id: job for job in jobs}, settings)


def numbers(jobs: list[QueuedJob]) -> list[tuple[str, int, int]]:
    return [(job.facts.job_id, job.position, job.jobs_ahead) for job in jobs]


def test_under_priority_running_jobs_count_as_ahead() -> None:
    old, urgent, young = facts("old"), facts("urgent", 60, priority=1), facts("young", 120)
    entries = [entry(young, state="scheduled"), entry(urgent), entry(old), entry(old, 2)]
    found = listed(PRIORITY, entries, old, urgent, young)
    assert numbers(found) == [("urgent", 1, 0), ("old", 2, 1), ("young", 3, 2)]
    assert [job.priority for job in found] == [1, 42, 42]


@pytest.mark.parametrize("settings", [FAIR_SHARE, ROUND_ROBIN])
def test_other_schedulers_serve_no_order_so_what_holds_slots_comes_first(
    settings: SchedulerSettings,
) -> None:
    old, middle, young = facts("old", priority=99), facts("middle", 60), facts("young", 120)
    entries = [entry(old), entry(middle), entry(young, state="scheduled")]
    found = listed(settings, entries, old, middle, young)
    assert numbers(found) == [("young", 1, -1), ("old", 2, -1), ("middle", 3, -1)]


def test_a_job_sums_up_all_its_allocations() -> None:
    job = facts("job", weight=3.0)
    entries = [
        entry(job, 3, slots=4),
        entry(job, 2, slots=2, state="scheduled", placement={"a": 1, "b": 1}),
        entry(job, 4, slots=4, reason=Reason(kind=ReasonKind.QUOTA, text="quota")),
    ]
    (found,) = listed(FAIR_SHARE, entries, job)
    assert (found.requested_slots, found.allocated_slots) == (10, 2)
    assert found.state is QueueState.SCHEDULED
    assert found.first_waiting == "job.3"
    assert found.pool == "gpu"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["queued"], QueueState.QUEUED),
        (["queued", "scheduled_backfilled"], QueueState.SCHEDULED_BACKFILLED),
        (["scheduled_backfilled", "scheduled", "queued"], QueueState.SCHEDULED),
    ],
)
def test_the_most_advanced_allocation_gives_the_state(
    states: list[str], expected: QueueState
) -> None:
    job = facts("job")
    entries = [entry(job, run, state=state) for run, state in enumerate(states)]
    (found,) = listed(PRIORITY, entries, job)
    assert found.state is expected
    assert (found.first_waiting is None) == ("queued" not in states)


def test_work_of_no_users_job_is_neither_listed_nor_counted() -> None:
    job, cleaning = facts("job", 60), facts("cleaning")
    found = listed(PRIORITY, [entry(cleaning), entry(job)], job)
    assert numbers(found) == [("job", 1, 0)]


@pytest.mark.parametrize(
    ("type_", "settings", "expected"),
    [
        (JobType.EXPERIMENT, FAIR_SHARE, True),
        (JobType.EXPERIMENT, PRIORITY, True),
        (JobType.EXPERIMENT, SchedulerSettings(type="priority"), False),
        (JobType.EXPERIMENT, ROUND_ROBIN, False),
        (JobType.COMMAND, FAIR_SHARE, False),
        (JobType.COMMAND, PRIORITY, False),
    ],
)
def test_who_may_be_asked_to_leave(
    type_: JobType, settings: SchedulerSettings, expected: bool
) -> None:
    assert is_preemptible(type_, settings) is expected
    job = facts("job", type=type_)
    (found,) = listed(settings, [entry(job)], job)
    assert found.is_preemptible is expected
