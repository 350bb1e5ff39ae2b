"""Nodes of the site that a request must not use."""

from __future__ import annotations

from tests.fakes.agents_world import allocation
from tests.fakes.batch_world import ID, BatchWorld, Play


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
