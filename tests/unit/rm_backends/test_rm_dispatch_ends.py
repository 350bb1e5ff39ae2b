"""Ends of batch jobs: time limits, losses, cancellations, suspensions, and the jobs that follow."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from provisioner.batch.base import (
    EndCause,
    JobPhase,
    JobReport,
)
from provisioner.batch.job_files import JobShape
from provisioner.sections.batch import PbsSection
from rm_backends.base import (
    LossKind,
    Lost,
    ReleaseAsked,
)
from rm_backends.batch.leases import Lease, seen
from tests.fakes.agents_world import allocation
from tests.fakes.batch_world import ID, BatchWorld, Play


@pytest.mark.parametrize("cause", [EndCause.TIMEOUT, EndCause.NODE_FAILED, EndCause.PREEMPTED])
def test_a_job_that_ends_under_its_task_is_a_loss_with_the_sites_word(
    play: Play, cause: EndCause
) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=8))
        (job,) = batch.site.jobs.values()
        await batch.site.end(job, cause)
        reason = await batch.world.master.lost(ID)
        words = {"timeout": "time limit", "node_failed": "failed", "preempted": "preempted"}
        assert words[cause] in reason
        await batch.world.settle(60)
        assert batch.is_quiet()
        assert len(batch.site.submissions) == 1

    play(scenario)


def test_the_end_of_a_job_that_is_being_ended_is_no_deadline() -> None:
    shape = JobShape(queue="gpu", nodes=1, slots_per_node=1, gpus_per_node=1)
    lease = Lease(tag="wl-a-b", pool="p", allocation_id=ID, shape=shape, created_at=0.0)
    job = JobReport(
        job_id="1", name="wl-a-b", phase=JobPhase.RUNNING, state="RUNNING", ends_at=900.0
    )
    running = seen(lease, job, 10.0)
    assert running.ends_at == 900.0
    ending = replace(job, phase=JobPhase.ENDING, state="COMPLETING", ends_at=20.0)
    assert seen(running, ending, 21.0).ends_at == 900.0


def test_a_job_that_somebody_cancelled_is_not_run_again(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=4))
        (job,) = batch.site.jobs.values()
        await batch.site.end(job, EndCause.CANCELLED)
        await batch.world.master.lost(ID)
        (loss,) = [e for e in batch.world.master.of(ID) if isinstance(e, Lost)]
        assert loss.kind is LossKind.ON_PURPOSE
        assert loss.reason == "job 1 on n1 was cancelled at the site"

    play(scenario)


@pytest.mark.parametrize(
    ("left_s", "kind", "words"),
    [
        (3600.0, LossKind.ON_PURPOSE, "job 1 on n1 was cancelled at the site"),
        (5.0, LossKind.TIME_LIMIT, "job 1 on n1 reached its time limit"),
    ],
)
def test_where_a_site_forgets_a_job_at_its_end_what_that_noted_counts(
    play: Play, left_s: float, kind: LossKind, words: str
) -> None:
    """PBS without history. It is told before its agents count as lost for their silence."""

    async def scenario(batch: BatchWorld) -> None:
        now = batch.world.clock.now().timestamp()
        batch.site.ends_at = now + left_s + 60
        await batch.world.run_allocation(allocation(1, slots=4))
        await batch.world.settle(60)
        (job,) = batch.site.jobs.values()
        told_at = int(batch.world.clock.now().timestamp())
        (job.spec.directory / "told-to-end").write_text(f"{told_at}\n")
        job.forgotten = True
        await batch.site.end(job, EndCause.CANCELLED)
        assert await batch.world.master.lost(ID) == words
        (loss,) = [e for e in batch.world.master.of(ID) if isinstance(e, Lost)]
        assert loss.kind is kind
        assert batch.world.clock.now().timestamp() - told_at < 25
        await batch.world.settle(60)
        assert len(batch.site.submissions) == 1

    play(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("began", [False, True])
def test_a_job_that_left_the_queue_of_pbs_without_a_trace_was_deleted_there(
    play: Play, began: bool
) -> None:
    """It is not submitted again. One that began may have ended by itself, and is followed by another."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = True
        batch.options = replace(batch.options, section=PbsSection(type="pbs"))
        await batch.restart()
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        (job,) = batch.site.jobs.values()
        if began:
            (job.spec.directory / "batch.log").write_text("no such module\n")
        job.forgotten = True
        await batch.site.end(job, EndCause.CANCELLED)
        await batch.world.settle(3600)
        assert len(batch.site.submissions) == (2 if began else 1)
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert ("was cancelled at the site" in reason.text) == (not began)

    play(scenario)


def test_a_job_that_failed_before_its_task_is_followed_by_another_later(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        (first,) = batch.site.jobs.values()
        (first.spec.directory / "batch.log").write_text("starts\nsrun: error: no such node\n")
        await batch.site.end(first, EndCause.LAUNCH_FAILED)
        await batch.world.settle(4)
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert "job 1 could not be started by the site: srun: error: no such node" in reason.text
        assert reason.retry_at is not None
        batch.site.holds_back = False
        await batch.world.master.granted(ID)
        assert len(batch.site.submissions) == 2

    play(scenario)


def test_a_job_whose_directory_its_node_does_not_see_says_which_and_what_to_do(play: Play) -> None:
    """The site takes such a job, and it fails at once: there is no log, and the site says no more."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        (first,) = batch.site.jobs.values()
        await batch.site.end(first, EndCause.LAUNCH_FAILED)
        await batch.world.settle(4)
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert "job 1 could not be started by the site: it left no log in" in reason.text
        assert str(first.spec.directory) in reason.text
        assert "set job_storage_root to a folder" in reason.text

    play(scenario)


@pytest.mark.slow
def test_what_somebody_cancelled_in_the_queue_is_not_submitted_again(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        (job,) = batch.site.jobs.values()
        await batch.site.end(job, EndCause.CANCELLED)
        batch.site.holds_back = False
        await batch.world.settle(7200)
        assert len(batch.site.submissions) == 1
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert "was cancelled at the site" in reason.text
        await batch.world.backend.kill(ID)
        await batch.world.settle(60)
        assert batch.is_quiet()

    play(scenario)


def test_a_job_that_the_site_puts_back_into_the_queue_is_replaced(play: Play) -> None:
    """Slurm would run it again under its number: what ran there goes on in another one."""

    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=4))
        (job,) = batch.site.jobs.values()
        batch.site.holds_back = True
        for agent in job.agents:
            await agent.die()
        job.nodes, job.agents = (), []
        await batch.world.settle(60)
        assert batch.world.master.losses(ID) == ["job 1 was put back into the queue by the site"]
        assert job.cause is EndCause.CANCELLED
        assert batch.is_quiet()

    play(scenario)


@pytest.mark.slow
def test_a_suspended_job_loses_no_agent(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=4))
        (job,) = batch.site.jobs.values()
        job.paused = True
        await batch.world.settle(5)
        (agent,) = job.agents
        await agent.unplug()
        await batch.world.settle(3600)
        assert batch.world.master.losses(ID) == []
        job.paused = False
        agent.plug_in()
        await batch.world.settle(60)
        assert batch.world.master.losses(ID) == []

    play(scenario)


async def ask_times(batch: BatchWorld) -> list[ReleaseAsked]:
    return [e for e in batch.world.master.of(ID) if isinstance(e, ReleaseAsked)]


@pytest.mark.slow
@pytest.mark.parametrize("taken_away", [False, True])
def test_work_leaves_before_the_end_that_its_job_has_now(play: Play, taken_away: bool) -> None:
    """Also after its agent was away, and when the site brings the end forward: that is no fault of the work."""

    async def scenario(batch: BatchWorld) -> None:
        now = batch.world.clock.now().timestamp()
        batch.site.ends_at = now + 7200
        await batch.world.run_allocation(allocation(1, slots=4))
        await batch.world.settle(30)
        (job,) = batch.site.jobs.values()
        await job.agents[0].unplug()
        job.agents[0].plug_in()
        await batch.world.settle(30)
        assert await ask_times(batch) == []
        if taken_away:
            batch.site.ends_at = now + 180
            await batch.world.settle(20)
        else:
            await batch.world.settle(7200 - 60)
        asked = await ask_times(batch)
        assert [(e.deadline, e.kind is LossKind.TIME_LIMIT) for e in asked] == [
            (datetime.fromtimestamp(batch.site.ends_at, UTC), not taken_away)
        ]

    play(scenario)


def test_work_in_a_short_job_has_most_of_its_time(play: Play) -> None:
    """It was asked to leave 5 minutes before the end of 3: at once, again and again."""

    async def scenario(batch: BatchWorld) -> None:
        end = batch.world.clock.now() + timedelta(minutes=3)
        batch.site.ends_at = end.timestamp()
        await batch.world.run_allocation(allocation(1, slots=4))
        await batch.world.settle(120)
        assert await ask_times(batch) == []
        await batch.world.settle(30)
        assert [(e.deadline, e.kind is LossKind.TIME_LIMIT) for e in await ask_times(batch)] == [
            (end, True)
        ]

    play(scenario)


@pytest.mark.slow
def test_work_that_leaves_slowly_is_asked_earlier_the_next_time(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        end = batch.world.clock.now() + timedelta(hours=2)
        batch.site.ends_at = end.timestamp()
        slow = replace(allocation(1, slots=4), leave_took_s=400.0, preemption_timeout_s=3600.0)
        await batch.world.run_allocation(slow)
        await batch.world.settle(7200 - 900)
        assert await ask_times(batch) == []
        await batch.world.settle(120)
        assert [e.deadline for e in await ask_times(batch)] == [end]

    play(scenario)


def test_a_job_that_timed_out_is_told_as_that(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=4))
        (job,) = batch.site.jobs.values()
        await batch.site.end(job, EndCause.TIMEOUT)
        await batch.world.master.lost(ID)
        kinds = [e.kind for e in batch.world.master.of(ID) if isinstance(e, Lost)]
        assert kinds == [LossKind.TIME_LIMIT]

    play(scenario)
