"""What a site takes and refuses: limits, accounts, shapes that it could never give, priorities and projects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    JobRefused,
    Queue,
)
from provisioner.sections.batch import PbsSection
from rm_backends.base import (
    BatchOptions,
    JobOptions,
)
from rm_backends.batch.shapes import DispatchOptions, shape_of
from tests.fakes.agents_world import allocation
from tests.fakes.batch_world import ID, BatchWorld, Play, slurm_pool
from windlass.base.errors import Unsatisfiable


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


@pytest.mark.slow
def test_many_jobs_of_a_full_account_leave_room_for_others(play: Play) -> None:
    """`max_queued` counts what waits at the site."""

    async def scenario(batch: BatchWorld) -> None:
        text = "AssocMaxSubmitJobLimit"
        batch.site.holds_back = True
        batch.site.refused_account = "research"
        batch.site.refusal = JobRefused(text, kind=ReasonKind.QUOTA, passing=True)
        for number, account in enumerate(["research"] * 6 + ["teaching"] * 3, 1):
            asked = BatchOptions(slurm=JobOptions(arguments=(f"--account={account}",)))
            await batch.world.backend.request(replace(allocation(number, slots=4), batch=asked))
            await batch.world.settle(2)
        await batch.world.settle(5)
        assert len(batch.site.submissions) == 2
        reasons = [batch.world.backend.explain(f"task-{number}.1") for number in range(1, 10)]
        texts = ["" if reason is None else reason.text for reason in reasons]
        assert all(text in one for one in texts[:6]), texts
        assert "2 jobs of pool 'default' wait at the site, its max_queued" in texts[8]
        batch.site.refusal = None
        batch.site.holds_back = False
        batch.site.start_waiting()
        await batch.world.settle(900)
        assert len(batch.site.submissions) > 2

    play(scenario, max_queued=2)


@pytest.mark.parametrize(
    ("priority", "default", "nice"),
    [(None, 42, 0), (42, 42, 0), (50, 42, 8), (1, 42, 0), (9, 5, 4)],
)
def test_what_is_less_important_is_so_at_the_site(
    priority: int | None, default: int, nice: int
) -> None:
    request = allocation(1, slots=1)
    request = replace(request, job=replace(request.job, priority=priority))
    options = slurm_pool("p", default_priority=default)
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


def test_a_job_is_booked_on_its_project(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.run_allocation(allocation(1, slots=8))
        (job,) = batch.site.jobs.values()
        assert job.spec.project == f"project of {ID}"

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


@pytest.mark.parametrize(
    ("time", "preemptible", "told"),
    [("--time=2", True, True), ("--time=3", True, False), ("--time=2", False, False)],
)
def test_a_time_that_holds_no_checkpoint_is_told_at_submission(
    play: Play, time: str, preemptible: bool, told: bool
) -> None:
    async def scenario(batch: BatchWorld) -> None:
        await batch.world.settle(5)
        asked = BatchOptions(slurm=JobOptions(arguments=(time,)))
        request = replace(allocation(1, slots=4), batch=asked, preemptible=preemptible)
        notes = batch.world.backend.check(request)
        assert bool(notes) is told
        assert all("gets 2m: work that does not end within that time" in note for note in notes)
        assert all("needs at least 3m to start, save a checkpoint" in note for note in notes)

    play(scenario)


def test_a_pool_of_pbs_says_it_in_the_words_of_pbs() -> None:
    options = DispatchOptions(pool="p", section=PbsSection(type="pbs", queue="workq"))
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
    options = slurm_pool("p", slot_type="cuda", gres_supported=False, slots_per_node=per_node)
    queue = Queue(name="gpu", nodes=8)
    shape = shape_of(allocation(1, slots=slots), options, queue)
    assert (shape.nodes, shape.slots_per_node, shape.gpus_per_node) == (nodes, each, each)
    assert not shape.asks_for_gpus


def test_slots_of_a_node_may_be_fewer_than_it_has(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        request = replace(
            allocation(1, slots=4), batch=BatchOptions(slurm=JobOptions(slots_per_node=2))
        )
        await batch.world.run_allocation(request)
        (job,) = batch.site.jobs.values()
        assert (job.spec.nodes, job.spec.gpus_per_node) == (2, 2)

    play(scenario)
