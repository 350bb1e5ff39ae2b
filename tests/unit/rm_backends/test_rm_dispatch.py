"""Requests as batch jobs: the real dispatcher and pools of agents over a batch system in memory, on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from master.core.reasons import ReasonKind
from provisioner.providers.batch.base import (
    ARRIVAL_S,
    PROOF_S,
    SUBMIT_LIMIT_S,
    EndCause,
    ForeignJob,
    JobPhase,
    JobRefused,
    JobReport,
    NoAnswer,
    Queue,
)
from provisioner.providers.batch.disks import LocalDisk
from provisioner.providers.batch.job_files import Shape
from rm_backends.agents.options import PoolOptions
from rm_backends.base import (
    AlreadyGranted,
    BatchOptions,
    JobOptions,
    LossKind,
    Lost,
    ReleaseAsked,
    RestoreRecord,
    Withdrawn,
)
from rm_backends.batch.leases import Lease, seen
from rm_backends.batch.shapes import DispatchOptions, shape_of
from tests.fakes.agents_world import agents_world, allocation, launch_spec
from tests.fakes.batch_world import BatchWorld
from tests.fakes.virtual_time import run
from windlass.base.errors import Unsatisfiable

ID = "task-1.1"
POOL = PoolOptions(name="default", dynamic=True, dispatch=True)


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def play(scenario: Callable[[BatchWorld], Awaitable[None]], **options: int) -> None:
        async def main() -> None:
            async with agents_world(POOL) as world:
                batch = BatchWorld(
                    world, tmp_path / "jobs", DispatchOptions(pool="default", **options)
                )
                await batch.start()
                await scenario(batch)
                await batch.stop()

        run(main(), limit_s=24 * 3600)

    return play


Play = Callable[..., None]


def test_a_request_becomes_one_job_and_ends_with_it(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=8))
        (job,) = batch.site.jobs.values()
        assert (job.spec.nodes, job.spec.gpus_per_node, job.nodes) == (2, 4, ("n1", "n2"))
        grant = batch.world.master.grant_of(ID)
        assert grant is not None
        assert [c.agent_id for c in grant.containers] == [
            f"{job.spec.name}-0",
            f"{job.spec.name}-1",
        ]
        for container in grant.containers:
            batch.world.agents[container.agent_id].exit(container.container_id, 0)
        await batch.world.master.ended(ID, 2)
        await batch.world.settle(30)
        assert job.cause is EndCause.OK
        assert batch.is_quiet()
        assert batch.site.submissions == [job.spec.name]

    play(scenario)


def test_nothing_else_is_ever_placed_on_its_nodes(play: Play) -> None:
    """Though it has room: two slots of four are free."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = False
        await batch.world.run_allocation(allocation(1, slots=2))
        batch.site.holds_back = True
        await batch.world.backend.request(allocation(2, slots=1))
        await batch.world.settle(120)
        assert batch.world.master.grant_of("task-2.1") is None
        reason = batch.world.backend.explain("task-2.1")
        assert reason is not None
        assert reason.kind is ReasonKind.NO_CAPACITY
        assert "Slurm job 2 in partition gpu is pending: Resources (no nodes" in reason.text

    play(scenario)


def test_what_is_withdrawn_is_cancelled(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        assert await batch.world.backend.withdraw(ID) == Withdrawn(allocation_id=ID)
        await batch.world.settle(30)
        (job,) = batch.site.jobs.values()
        assert job.cause is EndCause.CANCELLED
        assert batch.is_quiet()
        assert batch.world.master.of(ID) == []

    play(scenario)


def test_a_job_that_the_site_does_not_cancel_keeps_no_other_from_being_looked_at(
    play: Play,
) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = batch.site.cancels_nothing = True
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        await batch.world.backend.withdraw(ID)
        await batch.world.settle(5)
        await batch.world.backend.request(allocation(2, slots=4))
        await batch.world.settle(30)
        reason = batch.world.backend.explain("task-2.1")
        assert reason is not None
        assert "Slurm job 2 in partition gpu is pending: Resources" in reason.text
        batch.site.cancels_nothing = False
        await batch.world.settle(60)
        assert batch.site.jobs["1"].cause is EndCause.CANCELLED

    play(scenario)


def test_what_is_granted_is_not_withdrawn(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=4))
        assert await batch.world.backend.withdraw(ID) == AlreadyGranted(allocation_id=ID)
        await batch.world.settle(60)
        assert batch.world.master.losses(ID) == []

    play(scenario)


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
    shape = Shape(queue="gpu", nodes=1, slots_per_node=1, gpus_per_node=1)
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


def test_a_refused_job_says_why_and_is_tried_again(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        text = "Invalid account (give one of yours with --account)"
        batch.site.refusal = JobRefused(text, kind=ReasonKind.QUOTA, passing=False)
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(5)
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert (reason.kind, text in reason.text) == (ReasonKind.QUOTA, True)
        batch.site.refusal = None
        await batch.world.master.granted(ID)

    play(scenario)


def test_only_so_many_jobs_wait_at_the_site(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back = True
        for number in range(1, 6):
            await batch.world.backend.request(allocation(number, slots=4))
        await batch.world.settle(60)
        assert len(batch.site.submissions) == 2
        reason = batch.world.backend.explain("task-5.1")
        assert reason is not None
        assert reason.kind is ReasonKind.AT_LIMIT
        batch.site.holds_back = False
        await batch.world.master.granted("task-2.1")
        await batch.world.settle(30)
        assert len(batch.site.submissions) == 4

    play(scenario, max_queued=2)


def test_a_site_that_takes_no_more_jobs_is_asked_with_one_after_a_while(play: Play) -> None:
    """The rest waits here with that reason; when one is taken, all are submitted."""

    async def scenario(batch: BatchWorld) -> None:
        text = "QOSMaxSubmitJobPerUserLimit"
        batch.site.holds_back = True
        batch.site.refusal = JobRefused(text, kind=ReasonKind.QUOTA, passing=True)
        for number in range(1, 6):
            await batch.world.backend.request(allocation(number, slots=4))
        await batch.world.settle(9)
        assert batch.site.refused == 1
        for number in range(1, 6):
            reason = batch.world.backend.explain(f"task-{number}.1")
            assert reason is not None
            assert reason.kind is ReasonKind.AT_LIMIT
            assert "takes no more jobs of pool 'default' now: QOSMaxSubmit" in reason.text
        await batch.world.settle(120)
        assert batch.site.refused == 4
        batch.site.refusal = None
        await batch.world.settle(120)
        assert len(batch.site.submissions) == 5

    play(scenario)


def test_a_full_account_does_not_hold_up_jobs_of_others(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        text = "AssocMaxSubmitJobLimit"
        batch.site.holds_back = True
        batch.site.refused_account = "research"
        batch.site.refusal = JobRefused(text, kind=ReasonKind.QUOTA, passing=True)
        for number, account in enumerate(["research", "research", "teaching", "teaching"], 1):
            asked = BatchOptions(slurm=JobOptions(arguments=(f"--account={account}",)))
            await batch.world.backend.request(replace(allocation(number, slots=4), batch=asked))
        await batch.world.settle(9)
        assert len(batch.site.submissions) == 2
        assert batch.site.refused == 1
        full, taken = (batch.world.backend.explain(f"task-{number}.1") for number in (2, 3))
        assert full is not None
        assert full.kind is ReasonKind.AT_LIMIT
        assert text in full.text
        assert taken is not None
        assert text not in taken.text

    play(scenario)


@pytest.mark.parametrize(
    ("priority", "default", "nice"),
    [(None, 42, 0), (42, 42, 0), (50, 42, 8), (1, 42, 0), (9, 5, 4)],
)
def test_what_is_less_important_is_so_at_the_site(
    priority: int | None, default: int, nice: int
) -> None:
    request = allocation(1, slots=1)
    request = replace(request, job=replace(request.job, priority=priority))
    options = DispatchOptions(pool="p", default_priority=default)
    assert shape_of(request, options, Queue(name="gpu", nodes=1, gpus_per_node=4)).nice == nice


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--account=other",), '"other" is no account that this user may name: research, teaching'),
        (("-A other",), '"other" is no account'),
        (("--qos=high", "-A teaching"), '"high" is no QOS of account teaching that this user may'),
        (("-q urgent",), '"urgent" is no QOS that this user may name: high, normal'),
        (("--account=Research", "--qos=high"), ""),
        ((), ""),
    ],
)
def test_accounts_that_the_site_would_refuse_are_refused_at_submission(
    play: Play, arguments: tuple[str, ...], problem: str
) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.accounts = {
            "research": frozenset({"normal", "high"}),
            "teaching": frozenset({"normal"}),
        }
        await batch.world.settle(5)
        asked = BatchOptions(slurm=JobOptions(arguments=arguments))
        request = replace(allocation(1, slots=4), batch=asked)
        if problem:
            with pytest.raises(Unsatisfiable) as refused:
                batch.world.backend.check(request)
            assert problem in refused.value.message
        else:
            batch.world.backend.check(request)

    play(scenario)


def test_jobs_of_others_are_listed_without_ours(play: Play) -> None:
    """The site is asked once a minute, however many look; while it is silent, what was there last is shown."""

    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=4))
        strange = ForeignJob(system="slurm", job_id="9", name="vasp", user="eve", waits=True)
        batch.site.foreign = [strange]
        assert [await batch.dispatcher.others("default") for _ in range(3)] == [[strange]] * 3
        assert batch.site.listings == 1
        assert await batch.dispatcher.others("elsewhere") == ()
        await batch.world.settle(61)
        batch.site.down = True
        assert await batch.dispatcher.others("default") == [strange]
        await batch.world.settle(61)
        batch.site.down = False
        batch.site.foreign = []
        assert await batch.dispatcher.others("default") == []

    play(scenario)


def test_agents_that_do_not_join_say_why(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.agents_say = "SyntaxError: invalid syntax\n"
        await batch.world.backend.request(allocation(1, slots=4))
        await batch.world.settle(60)
        why = batch.world.backend.explain(ID)
        assert why is not None
        assert "0 of 1 agents have joined; node 0: SyntaxError: invalid syntax" in why.text

    play(scenario)


def test_a_job_is_booked_on_its_project(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=8))
        (job,) = batch.site.jobs.values()
        assert job.spec.project == f"project of {ID}"

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


@pytest.mark.parametrize(
    ("slots", "asked", "message"),
    [
        (6, JobOptions(), "gives 4 on each node.*request 4 or 8"),
        (16, JobOptions(), "the maximum of partition gpu of pool 'default' is 8"),
        (4, JobOptions(gpu_type="a100"), 'has no "a100": its types are fake'),
        (4, JobOptions(arguments=("--nodes=1",)), "slurm.sbatch_args: .*not configurable"),
        (4, JobOptions(arguments=("--time=3-0",)), "gives a job 2h at most"),
        (8, JobOptions(slots_per_node=8), "nodes of partition gpu .* have 4 GPUs"),
    ],
)
def test_what_the_site_could_never_give_is_refused_at_submission(
    play: Play, slots: int, asked: JobOptions, message: str
) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.settle(5)
        with pytest.raises(Unsatisfiable, match=message):
            batch.world.backend.check(
                replace(allocation(1, slots=slots), batch=BatchOptions(slurm=asked))
            )

    play(scenario)


def test_a_pool_of_pbs_says_it_in_the_words_of_pbs() -> None:
    options = DispatchOptions(pool="p", system="pbs", queue="workq")
    queue = Queue(name="workq", nodes=2, gpus_per_node=4, max_walltime_s=3600)

    def refusal(slots: int, **asked: Any) -> str:
        request = replace(allocation(1, slots=slots), batch=BatchOptions(pbs=JobOptions(**asked)))
        with pytest.raises(Unsatisfiable) as refused:
            shape_of(request, options, queue)
        return refused.value.message

    assert "or set pbs.slots_per_node" in refusal(6)
    assert "the maximum of queue workq of pool 'p' is 8" in refusal(16)
    assert 'pbs.pbsbatch_args: "-q x": PBS option -q is not' in refusal(4, arguments=("-q x",))
    assert "give a shorter -l walltime" in refusal(4, arguments=("-l walltime=2:00:00",))
    request = replace(allocation(1, slots=8), batch=BatchOptions(slurm=JobOptions(gpu_type="x")))
    shape = shape_of(request, options, queue)
    assert (shape.system, shape.nodes, shape.gpus_per_node) == ("pbs", 2, 4)


@pytest.mark.parametrize(
    ("slots", "per_node", "nodes", "each"), [(4, None, 4, 1), (4, 2, 2, 2), (1, 8, 1, 1)]
)
def test_a_site_that_does_not_know_gpus_gives_nodes(
    slots: int, per_node: int | None, nodes: int, each: int
) -> None:
    """As many as it takes with `slots_per_node` on each, or 1; nothing is held against their number."""
    options = DispatchOptions(
        pool="p", slot_type="cuda", asks_for_gpus=False, slots_per_node=per_node
    )
    queue = Queue(name="gpu", nodes=8)
    shape = shape_of(allocation(1, slots=slots), options, queue)
    assert (shape.nodes, shape.slots_per_node, shape.gpus_per_node) == (nodes, each, each)
    assert not shape.asks_for_gpus


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
        await batch.stop()
        batch.disk = disk = AwayDisk()
        await batch.start()
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


def test_slots_of_a_node_may_be_fewer_than_it_has(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        request = replace(
            allocation(1, slots=4), batch=BatchOptions(slurm=JobOptions(slots_per_node=2))
        )
        await batch.world.run_allocation(request)
        (job,) = batch.site.jobs.values()
        assert (job.spec.nodes, job.spec.gpus_per_node) == (2, 2)

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


async def ask_times(batch: BatchWorld) -> list[ReleaseAsked]:
    return [e for e in batch.world.master.of(ID) if isinstance(e, ReleaseAsked)]


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
        assert [(e.deadline, e.at_limit) for e in asked] == [
            (datetime.fromtimestamp(batch.site.ends_at, UTC), not taken_away)
        ]

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


def test_nodes_that_a_request_must_not_use_are_said_to_the_site(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        request = allocation(1, slots=4, blocked=frozenset({"n1"}))
        await batch.world.run_allocation(request)
        (job,) = batch.site.jobs.values()
        assert (job.spec.avoid, job.nodes) == (("n1",), ("n2",))
        grant = batch.world.master.grant_of(ID)
        assert grant is not None
        assert [container.node for container in grant.containers] == ["n2"]

    play(scenario)


def test_names_that_the_site_does_not_know_are_not_said_to_it(play: Play) -> None:
    """Agents of other pools, from which the work fell back: Slurm refuses a job that excludes such a node."""

    async def scenario(batch: BatchWorld) -> None:
        blocked = frozenset({"n1", "cloud-agent-7"})
        await batch.world.run_allocation(allocation(1, slots=4, blocked=blocked))
        (job,) = batch.site.jobs.values()
        assert job.spec.avoid == ("n1",)

    play(scenario)


def test_a_job_on_a_node_that_its_request_must_not_use_is_followed_by_another(play: Play) -> None:
    """Not every site can be told: where it gives such a node all the same, the work waits for another one."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.heeds_avoid = False
        await batch.world.backend.request(allocation(1, slots=4, blocked=frozenset({"n1"})))
        await batch.world.settle(5)
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert "the site gave job 1 n1, which the log policies of its work exclude" in reason.text
        batch.site.down_nodes = {"n1"}
        grant = await batch.world.master.granted(ID)
        first, second = batch.site.jobs.values()
        assert (first.nodes, second.nodes) == (("n1",), ("n2",))
        assert [container.agent_id for container in grant.containers] == [f"{second.spec.name}-0"]
        await batch.world.settle(60)
        assert first.cause is not None

    play(scenario)
