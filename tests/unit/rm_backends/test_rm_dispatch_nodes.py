"""Nodes of the site that a request must not use."""

from __future__ import annotations

from rm_backends.base import Refused
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


async def reason_of(batch: BatchWorld) -> str:
    reason = batch.world.backend.explain(ID)
    return "" if reason is None else reason.text


def test_a_node_with_fewer_slots_than_asked_for_is_told_and_left_at_once(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.slots_of = {"n1": 1}
        await batch.world.backend.request(allocation(1, slots=2))
        await batch.world.settle(5)
        assert (await reason_of(batch)).startswith("job 1: node n1 has 1 of 2 slots; tried again")
        grant = await batch.world.master.granted(ID)
        first, second = batch.site.jobs.values()
        assert second.spec.avoid == ("n1",)
        assert [container.node for container in grant.containers] == ["n2"]
        await batch.world.settle(60)
        assert first.cause is not None, "it does not wait for 15 minutes"

    play(scenario)


def test_a_site_whose_nodes_all_have_too_few_slots_ends_the_request(play: Play) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.slots_of = {"n1": 1, "n2": 1}
        await batch.world.backend.request(allocation(1, slots=2))
        await batch.world.settle(60)
        (refused,) = [e for e in batch.world.master.of(ID) if isinstance(e, Refused)]
        assert refused.reason.startswith("job 2: node n2 has 1 of 2 slots; ask for what nodes have")
        await batch.world.backend.withdraw(ID)  # as the master does when it ends
        await batch.world.settle(60)
        assert len(batch.site.submissions) <= 3
        assert batch.is_quiet()

    play(scenario)
