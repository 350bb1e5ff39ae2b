"""Pools of mode auto: where each request waits, is granted and is found again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.core.batch_mode import FEW
from rm_backends.auto_modes import PilotSide
from rm_backends.base import AllocationRequest, FellBack, RestoreRecord
from rm_backends.router import Router
from tests.fakes.actors import ADMIN
from tests.fakes.agents_world import AgentsWorld, agents_world, allocation, launch_spec
from tests.fakes.pools import EMBEDDED, resolved_pool
from tests.fakes.virtual_time import run
from windlass.base.errors import Unsatisfiable

HOME, PILOTS = "gpu", "gpu-pilots"
POOLS = (resolved_pool(HOME, EMBEDDED), resolved_pool(PILOTS))


def a_router(world: AgentsWorld) -> Router:
    sides = {HOME: PilotSide(pool=PILOTS, lasts_s=3600.0)}
    return Router([world.backend], pilot_sides=sides)


def asked(number: int, **job: object) -> AllocationRequest:
    one = allocation(number, pool=HOME, job="search")
    return replace(one, job=replace(one.job, **job))  # type: ignore[arg-type]


def where(world: AgentsWorld, number: int) -> str:
    id_ = allocation(number).allocation_id
    return next(
        pool
        for pool in (HOME, PILOTS)
        if id_ in {entry.allocation_id for entry in world.backend.observer.queue(pool)}
    )


async def ask(router: Router, *requests: AllocationRequest) -> None:
    for request in requests:
        await router.request(request)


def test_the_first_of_a_kind_are_jobs_and_many_share_pilots() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            router = a_router(world)
            await world.add_agent("small", pool=PILOTS, slots=2)
            await ask(router, *(asked(n) for n in range(FEW + 3)))
            sides = [where(world, n) for n in range(FEW + 3)]
            assert sides == [HOME] * (FEW + 1) + [PILOTS] * 2
            await ask(router, *(asked(n) for n in range(FEW + 3)))
            assert [where(world, n) for n in range(FEW + 3)] == sides, "asked again"
            reason = router.explain("task-0.1")
            assert reason is not None
            assert reason.text.endswith(
                "; mode auto runs it as a job of its own: few of its kind wait"
            )
            granted = await world.master.granted(f"task-{FEW + 1}.1")
            assert granted.pool == PILOTS
            assert granted.why == "mode auto: 5 others of its kind wait"
            assert router.away("search") == (PILOTS,)
            for n in range(FEW + 3):
                await router.withdraw(f"task-{n}.1")
            await ask(router, asked(90))
            assert where(world, 90) == HOME, "those that left wait no more"

    run(main())


def test_those_whose_grants_were_lost_before_they_started_wait_no_more() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            router = a_router(world)
            await world.add_agent("small", pool=PILOTS, slots=FEW + 1)
            many = [asked(n, run_time_s=30.0) for n in range(FEW + 1)]
            await ask(router, *many)
            for one in many:
                await world.master.granted(one.allocation_id)
            await ask(router, asked(50))
            assert where(world, 50) == PILOTS, "what is granted counts until it is started"
            await router.operator_of("small").disable_agent("small", drain=False, by=ADMIN)
            for one in many:
                await world.master.lost(one.allocation_id)
            await world.add_agent("other", pool=PILOTS, slots=2)
            await ask(router, asked(51))
            assert where(world, 51) == HOME

    run(main())


def test_short_ones_share_pilots_and_gangs_over_nodes_do_not() -> None:
    async def main() -> None:
        async with agents_world(*POOLS) as world:
            router = a_router(world)
            await world.add_agent("small", pool=PILOTS, slots=2)
            gang = replace(asked(2, run_time_s=30.0), slots=4)
            await ask(router, asked(1, run_time_s=30.0), gang, asked(3, run_time_s=4000.0))
            assert [where(world, n) for n in (1, 2, 3)] == [PILOTS, HOME, HOME]

    run(main())


def test_a_job_with_max_slots_keeps_to_one_side_also_after_a_restart() -> None:
    """Each side would give it that many."""

    async def main() -> None:
        async with agents_world(*POOLS) as world:
            router = a_router(world)
            await world.add_agent("small", pool=PILOTS, slots=2)
            await ask(router, asked(1, max_slots=2, run_time_s=30.0))
            granted = await world.master.granted("task-1.1")
            await router.start("task-1.1", launch_spec("task-1.1"))
            assert router.away("search") == (PILOTS,), "what runs there counts, too"
            await ask(router, asked(2, max_slots=2, run_time_s=4000.0))
            assert where(world, 2) == PILOTS
        away = FellBack(home=HOME, why=granted.why)
        runs = replace(asked(1, max_slots=2), pool=PILOTS, fell_back=away)
        waits = asked(2, max_slots=2, run_time_s=4000.0)
        async with agents_world(*POOLS) as world:
            await a_router(world).restore(
                [
                    RestoreRecord(request=waits),
                    RestoreRecord(request=runs, containers=granted.containers, started=True),
                ]
            )
            assert where(world, 1) == PILOTS
            assert where(world, 2) == PILOTS

    run(main())


def test_many_that_wait_share_pilots_also_after_a_restart() -> None:
    """What is to be restored is known before the site has said what its nodes have."""
    unknown = resolved_pool(PILOTS, EMBEDDED)

    async def main() -> None:
        async with agents_world(resolved_pool(HOME, EMBEDDED), unknown) as world:
            router = a_router(world)
            waiting = [asked(n) for n in range(FEW + 3)]
            await router.restore([RestoreRecord(request=request) for request in waiting])
            assert [where(world, n) for n in range(FEW + 3)] == [HOME] * (FEW + 1) + [PILOTS] * 2
            reason = router.explain("task-0.1")
            assert reason is not None
            assert reason.text.endswith("few of its kind wait")

    run(main())


def test_a_pool_that_leaves_mode_auto_lets_what_runs_on_its_pilots_end_there() -> None:
    """Over the restart with the new configuration; what waits, and what comes, is its own pool's."""
    closed = resolved_pool(PILOTS, EMBEDDED, closed="use 'gpu'")
    why = FellBack(home=HOME, why="mode auto: many wait")

    async def main() -> None:
        async with agents_world(resolved_pool(HOME, EMBEDDED), closed) as world:
            master = world.master
            router = Router([world.backend])
            agent = await world.add_agent("pilot", pool=PILOTS, slots=2)
            there = replace(asked(1), pool=PILOTS, fell_back=why)
            await world.backend.request(there)
            grant = await master.granted(there.allocation_id)
            await router.start(there.allocation_id, launch_spec(there.allocation_id))
            await master.running(there.allocation_id)
            held = RestoreRecord(request=there, containers=grant.containers, started=True)
            waits = RestoreRecord(request=asked(2), containers=())

            await world.restart([held, waits])
            router = Router([world.backend])
            await world.settle(1)
            assert where(world, 1) == PILOTS
            assert where(world, 2) == HOME
            with pytest.raises(Unsatisfiable, match="use 'gpu'"):
                router.check(replace(asked(3), pool=PILOTS))
            agent.exit(grant.containers[0].container_id, 0)
            await master.ended(there.allocation_id)
            assert not master.losses(there.allocation_id)

    run(main())
