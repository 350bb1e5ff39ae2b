"""A master that dies, and a site that does not answer: nothing is lost, and nothing is submitted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.batch.base import (
    ARRIVAL_S,
    PROOF_S,
    SUBMIT_LIMIT_S,
    EndCause,
    NoAnswer,
)
from provisioner.batch.disks import LocalDisk
from rm_backends.base import (
    LossKind,
    Lost,
    RestoreRecord,
)
from tests.fakes.agents_world import allocation, launch_spec
from tests.fakes.batch_world import ID, BatchWorld, Play


def test_a_lost_answer_submits_nothing_twice(play: Play) -> None:
    """The job was taken: it is found by its name."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.loses_answers = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.master.granted(ID)
        await batch.world.settle(5 * PROOF_S)
        assert len(batch.site.submissions) == 1

    play(scenario)


def test_a_command_that_outlives_its_connection_submits_nothing_twice(play: Play) -> None:
    """sbatch tries again for minutes while Slurm is busy; squeue, asked meanwhile, does not know the job."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.arrives_after_s = SUBMIT_LIMIT_S - 1
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.master.granted(ID)
        await batch.world.settle(2 * ARRIVAL_S)
        assert len(batch.site.submissions) == 1

    play(scenario)


def test_a_job_that_never_arrived_is_submitted_again_after_proof(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.settle(5)
        batch.site.down = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(20)
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert "does not answer" in reason.text
        batch.site.down = False
        await batch.world.settle(PROOF_S / 2)
        assert batch.site.submissions == []
        await batch.world.master.granted(ID)
        assert len(batch.site.submissions) == 1

    play(scenario)


@pytest.mark.slow
def test_a_site_that_is_down_ends_nothing(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=4))
        batch.site.down = True
        await batch.world.settle(3600)
        assert batch.world.master.losses(ID) == []
        assert len(batch.dispatcher.leases()) == 1
        batch.site.down = False
        await batch.world.settle(60)
        assert batch.world.master.losses(ID) == []

    play(scenario)


@pytest.mark.parametrize("holds_back", [True, False], ids=["queued", "running"])
def test_a_listing_that_leaves_out_a_job_doubles_and_ends_nothing(
    play: Play, holds_back: bool
) -> None:
    """As the JSON of newer releases of OpenPBS. What the site says of each job counts all the same."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = holds_back
        batch.site.tells_only = 0
        batch.site.ends_at = batch.world.clock.now().timestamp() + 7200
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        for job in batch.site.jobs.values():
            for agent in job.agents:
                await agent.unplug()
                await batch.world.settle(5)
                agent.plug_in()
        await batch.world.settle(5 * PROOF_S)
        assert len(batch.site.submissions) == 1
        assert batch.world.master.losses(ID) == []
        (lease,) = batch.dispatcher.leases()
        assert (lease.site_state, lease.ends_at) == (
            ("PENDING", None) if holds_back else ("RUNNING", batch.site.ends_at)
        )
        (view,) = batch.dispatcher.batch_jobs()
        assert (view.allocation_id, view.purpose, view.slots) == (ID, "run", 4)
        assert (view.job_id, view.site_state) == (lease.job_id, lease.site_state)
        assert (view.stage, bool(view.reason)) == (
            ("queued", True) if holds_back else ("running", False)
        )

    play(scenario)


def test_a_job_that_nobody_asked_for_is_cancelled(play: Play) -> None:
    """One of ours by its name, but not in our books: they were restored from a backup."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        batch.store.saved.clear()
        await batch.restart()
        await batch.world.settle(300)
        assert [job.cause for job in batch.site.jobs.values()] == [EndCause.CANCELLED]

    play(scenario)


def test_a_master_that_dies_at_any_moment_loses_and_doubles_nothing(play: Play) -> None:
    """Killed every 70 ms of a trial's life, from its request to the end of its job."""

    async def scenario(batch: BatchWorld) -> None:
        request = allocation(1, slots=8)
        await batch.world.backend.request(request)
        master = batch.world.master
        for _ in range(40):
            await batch.world.settle(0.07)
            grant = master.grant_of(ID)
            held = grant.containers if grant is not None else ()
            await batch.restart(RestoreRecord(request=request, containers=held))
        grant = await master.granted(ID)
        await batch.world.settle(2 * PROOF_S)
        await batch.world.backend.start(ID, launch_spec(ID))
        await master.running(ID, 2)
        assert len(batch.site.submissions) == 1
        for container in grant.containers:
            batch.world.agents[container.agent_id].exit(container.container_id, 0)
        await master.ended(ID, 2)
        await batch.world.settle(60)
        assert batch.is_quiet()

    play(scenario)


class AwayDisk(LocalDisk):
    """Of a login node that cannot be reached."""

    is_away = True

    def write(self, file: Path, data: bytes) -> None:
        if self.is_away:
            raise NoAnswer("login node hpc: does not answer")
        super().write(file, data)


def test_a_job_whose_directory_could_not_be_reached_is_submitted_at_once_when_it_can(
    play: Play,
) -> None:
    """Nothing was submitted, so nothing is looked for before it is."""

    async def scenario(batch: BatchWorld) -> None:
        batch.disk = disk = AwayDisk()
        await batch.restart()
        await batch.world.backend.request(allocation(1, slots=8))
        await batch.world.settle(10)
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert "login node hpc: does not answer" in reason.text
        assert batch.site.submissions == []
        disk.is_away = False
        await batch.world.settle(PROOF_S / 2)
        assert len(batch.site.submissions) == 1

    play(scenario)


@pytest.mark.parametrize("commits", range(1, 5))
def test_a_master_that_dies_while_it_tells_of_a_cancelled_job_runs_nothing_again(
    play: Play, commits: int
) -> None:
    """Dead after each of its commits: the task is over for good, and nothing of the job is left."""

    async def scenario(batch: BatchWorld) -> None:
        request = allocation(1, slots=8)
        grant = await batch.world.run_allocation(request)
        await batch.world.settle(15)
        batch.store.last = len(batch.store.commits) + commits
        (job,) = batch.site.jobs.values()
        await batch.site.end(job, EndCause.CANCELLED)
        await batch.world.settle(15)
        held = () if batch.world.master.losses(ID) else grant.containers
        records = [RestoreRecord(request=request, containers=held, started=True)] if held else []
        await batch.restart(*records)
        await batch.world.master.lost(ID)
        losses = [e for e in batch.world.master.of(ID) if isinstance(e, Lost)]
        assert [loss.kind for loss in losses] == [LossKind.ON_PURPOSE]
        await batch.world.settle(120)
        assert batch.is_quiet()
        assert len(batch.site.submissions) == 1

    play(scenario)


def test_a_loss_that_was_not_committed_is_told_again(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        request = allocation(1, slots=8)
        master = batch.world.master
        grant = await batch.world.run_allocation(request)
        (job,) = batch.site.jobs.values()
        master.open.clear()
        await batch.site.end(job, EndCause.CANCELLED)
        await master.until(lambda: any(isinstance(e, Lost) for e in master.waiting_events))
        await batch.world.settle(60)
        await batch.restart(
            RestoreRecord(request=request, containers=grant.containers, started=True)
        )
        master.open.set()
        await master.lost(ID)
        assert [e.kind for e in master.of(ID) if isinstance(e, Lost)] == [LossKind.ON_PURPOSE]
        await batch.world.settle(60)
        assert batch.is_quiet()

    play(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("commits", range(1, 6))
def test_a_master_that_dies_between_two_jobs_submits_the_next_one_once(
    play: Play, commits: int
) -> None:
    async def scenario(batch: BatchWorld) -> None:
        request = allocation(1, slots=4)
        batch.site.holds_back = True
        await batch.world.backend.request(request)
        await batch.world.settle(5)
        batch.store.last = len(batch.store.commits) + commits
        (first,) = batch.site.jobs.values()
        await batch.site.end(first, EndCause.LAUNCH_FAILED)
        await batch.world.settle(30)
        await batch.restart(RestoreRecord(request=request))
        await batch.world.settle(5 * PROOF_S)
        assert len(batch.site.submissions) == 2
        assert len(batch.dispatcher.leases()) == 1
        await batch.world.backend.kill(ID)
        await batch.world.settle(60)
        assert batch.is_quiet()

    play(scenario)


@pytest.mark.parametrize("starts", [True, False])
def test_jobs_of_a_pool_that_no_longer_dispatches_are_ended(play: Play, starts: bool) -> None:
    """Nobody else knows them: they would run on, and be paid for."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = not starts
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(10)
        (job,) = batch.site.jobs.values()
        assert bool(job.nodes) == starts
        batch.dispatches = False
        await batch.restart()
        await batch.world.settle(120)
        assert job.cause is not None
        assert batch.dispatcher.leases() == ()
        asked = batch.site.sites
        await batch.world.settle(600)
        assert batch.site.sites == asked, "a site that nobody uses is left alone"

    play(scenario)
