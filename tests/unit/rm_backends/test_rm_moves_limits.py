"""max_slots of a job counts over all pools that its requests may fall back to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

from master.core.fall_back import REST_S
from master.core.scheduler import decide
from rm_backends.base import (
    ReleaseAsked,
)
from tests.fakes.agents_world import launch_spec
from tests.fakes.falling_back import (
    AFTER_S,
    ID,
    QUOTA,
    Cluster,
    held,
    limited,
    play,
)

if TYPE_CHECKING:
    from master.core.scheduler.types import (
        Decision,
        PoolState,
    )


def test_max_slots_counts_over_pools() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("h1", pool="home", slots=4)
        await it.world.add_agent("b1", pool="b", slots=16)
        requests = [limited(n) for n in (1, 2, 3, 4)]
        for request in requests:
            await it.router.request(request)
        it.says(QUOTA, *requests[1:])
        await it.world.settle(3 * AFTER_S)
        assert (held(it, "home"), held(it, "b")) == (4, 4)
        # More free slots at home do not help: the job has its max_slots.
        await it.world.add_agent("h2", pool="home", slots=8)
        await it.world.settle(2 * REST_S)
        assert held(it, "home") + held(it, "b") == 8
        # When a run elsewhere ends, the next one may start at home.
        await it.router.start("task-2.1", launch_spec("task-2.1"))
        await it.world.master.running("task-2.1")
        await it.router.kill("task-2.1")
        await it.world.master.ended("task-2.1")
        await it.world.master.granted("task-3.1")
        assert held(it, "home") + held(it, "b") == 8

    play(scenario)


def test_a_decision_of_home_that_is_under_way_does_not_go_beyond_max_slots() -> None:
    """It was made before the job had slots elsewhere."""

    async def scenario(it: Cluster) -> None:
        pool, request = it.backend.by_name["home"], limited(1, slots=8)
        decided: list[str] = []

        def decide_too_early(state: PoolState) -> Decision:
            decision = decide(state)
            decided.extend(start.request_id for start in decision.start)
            if decision.start:
                pool.note_job(replace(request.job, elsewhere={"b": 4}))
            return decision

        with mock.patch.object(pool, "_decide", decide_too_early):
            await it.router.request(request)
            await it.world.add_agent("h1", pool="home", slots=8)
            await it.world.settle(60)
        assert decided == [ID]
        assert it.world.master.grant_of(ID) is None

    play(scenario)


def test_a_lowered_max_slots_is_kept_in_all_pools_together() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("h1", pool="home", slots=4)
        await it.world.add_agent("b1", pool="b", slots=16)
        requests = [limited(n) for n in (1, 2)]
        for request in requests:
            await it.router.request(request)
        it.says(QUOTA, requests[1])
        await it.world.master.granted("task-2.1")
        await it.router.update_job(replace(requests[0].job, max_slots=4))
        await it.world.settle(10)
        asked = [e.allocation_id for e in it.world.master.events if isinstance(e, ReleaseAsked)]
        assert asked == ["task-1.1"]

    play(scenario)
