"""Several backends as one: who gets which request."""

from __future__ import annotations

import pytest

from rm_backends.base import Container, RestoreRecord, Withdrawn
from rm_backends.router import Router
from tests.fakes.agents_world import AgentsWorld, agents_world, allocation, launch_spec
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run
from windlass.base.errors import InvalidArgument, NotFound

HELD = Container(container_id="c", agent_id="a1", rank=0)


def test_each_request_goes_to_the_backend_of_its_pool() -> None:
    async def main() -> None:
        async with (
            agents_world(resolved_pool("one")) as one,
            agents_world(resolved_pool("two")) as two,
        ):
            router = Router([one.backend, two.backend])
            assert list(router.pools()) == ["one", "two"]
            await two.add_agent("a1", pool="two")
            request = allocation(1, pool="two")
            router.check(request)
            await router.request(request)
            await router.request(request)
            await two.master.granted("task-1.1")
            assert router.knows("task-1.1")
            await router.start("task-1.1", launch_spec("task-1.1"))
            await two.master.running("task-1.1")
            await router.release("task-1.1", "paused", None)
            await router.kill("task-1.1")
            await two.master.ended("task-1.1")
            assert one.master.events == []
            assert await router.withdraw("task-1.1") == Withdrawn(allocation_id="task-1.1")
            await router.update_job(request.job)
            assert router.explain("task-1.1") is None

    run(main())


def test_a_request_that_waits_in_one_pool_is_not_queued_in_another() -> None:
    async def main() -> None:
        async with (
            agents_world(resolved_pool("one")) as one,
            agents_world(resolved_pool("two")) as two,
        ):
            router = Router([one.backend, two.backend])
            await router.request(allocation(1, pool="one"))
            await router.request(allocation(1, pool="two"))
            assert (one.backend.knows("task-1.1"), two.backend.knows("task-1.1")) == (True, False)
            await router.withdraw("task-1.1")
            await router.request(allocation(1, pool="two"))
            assert (one.backend.knows("task-1.1"), two.backend.knows("task-1.1")) == (False, True)
            assert router.explain("task-1.1") is not None

    run(main())


def test_unknown_pools_and_allocations() -> None:
    async def main() -> None:
        async with agents_world() as world:
            router = Router([world.backend])
            with pytest.raises(NotFound, match="resource pool 'x' not found"):
                router.check(allocation(1, pool="x"))
            await router.kill("unknown.1")
            await router.release("unknown.1", "", None)
            assert router.explain("unknown.1") is None
            await router.start("unknown.1", launch_spec("unknown.1"))
            await world.master.lost("unknown.1")

    run(main())


def test_work_whose_pool_was_taken_away_waits_and_says_so() -> None:
    async def main() -> None:
        async with agents_world() as world:
            router = Router([world.backend])
            for number in (1, 2):
                await router.request(allocation(number, pool="x"))
            for id_ in ("task-1.1", "task-2.1"):
                reason = router.explain(id_)
                assert reason is not None
                assert "no resource pool 'x' any more" in reason.text
            await router.kill("task-1.1")
            assert await router.withdraw("task-2.1") == Withdrawn(allocation_id="task-2.1")
            assert router.explain("task-1.1") is None
            assert router.explain("task-2.1") is None
            assert world.master.events == []

    run(main())


def test_restored_work_goes_to_its_pools_and_orphans_are_lost() -> None:
    async def main() -> None:
        async with (
            agents_world(resolved_pool("one")) as one,
            agents_world(resolved_pool("two")) as two,
        ):
            router = Router([one.backend, two.backend])
            await router.restore(
                [
                    RestoreRecord(request=allocation(1, pool="two")),
                    RestoreRecord(request=allocation(2, pool="gone")),
                    RestoreRecord(request=allocation(3, pool="gone"), containers=(HELD,)),
                ]
            )
            assert two.backend.knows("task-1.1")
            assert router.explain("task-2.1") is not None
            await one.master.lost("task-3.1")

    run(main())


def test_two_backends_with_the_same_pool_are_refused() -> None:
    async def main() -> None:
        async with agents_world() as one, agents_world() as two:
            with pytest.raises(InvalidArgument, match="two resource managers have a pool"):
                Router([one.backend, two.backend])
        with pytest.raises(InvalidArgument):
            Router([])

    run(main())


def test_it_runs_the_loops_of_its_backends() -> None:
    async def main(world: AgentsWorld) -> None:
        running = world.tasks.create_task(Router([world.backend]).run())
        await world.add_agent("a1")
        await world.run_allocation(allocation(1))
        running.cancel()

    async def with_world() -> None:
        async with agents_world() as world:
            world._of_master[-1].cancel()
            await main(world)

    run(with_world())
