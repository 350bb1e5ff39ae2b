"""Requests as batch jobs: the real dispatcher and pools of agents over a batch system in memory, on virtual time."""

from __future__ import annotations

from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    EndCause,
    ForeignJob,
)
from rm_backends.base import (
    AlreadyGranted,
    Withdrawn,
)
from tests.fakes.agents_world import allocation
from tests.fakes.batch_world import ID, BatchWorld, Play


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
