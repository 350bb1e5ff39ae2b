"""The router moves requests that their own pool cannot serve, and brings them back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from master.core.fall_back import REST_S
from master.core.machines import Requirements
from master.core.reasons import Reason, ReasonKind
from provisioner.types import LaunchableNode, PoolAvailability
from rm_backends import moves
from rm_backends.base import (
    Abilities,
    AllocationRequest,
    AlreadyGranted,
    FellBack,
    Granted,
    RestoreRecord,
    Withdrawn,
)
from tests.fakes.agents_world import allocation, launch_spec
from tests.fakes.falling_back import (
    AFTER_S,
    ID,
    QUOTA,
    START,
    Cluster,
    held,
    limited,
    play,
)
from windlass.base.errors import Unfulfillable, Unsatisfiable

if TYPE_CHECKING:
    from collections.abc import Callable


def test_it_starts_in_the_first_pool_that_would_start_it() -> None:
    async def scenario(it: Cluster) -> None:
        request = await it.ask(1)
        it.says(QUOTA, request)
        await it.world.settle(AFTER_S / 2)
        assert (
            it.text(ID)
            == "the quota of 8 is used; it may start in resource pool 'b' or 'c' after 1m of this"
        )
        await it.world.settle(AFTER_S)
        assert it.pool_of(ID) == "home"
        assert it.text(ID).endswith("; resource pool 'b' or 'c' could not start it at once either")
        await it.world.add_agent("b1", pool="b", slots=4)
        grant = await it.world.master.granted(ID)
        assert (grant.pool, grant.why) == ("b", "the quota of 8 is used")
        assert it.router.away("job-1") == ("b",)
        [entry] = it.router.queue("b")
        assert entry.requested == request.requested

    play(scenario)


@pytest.mark.parametrize(
    "kind", [ReasonKind.QUEUED, ReasonKind.LAUNCHING, ReasonKind.NEEDS_RELEASE]
)
def test_it_stays_where_a_queue_or_a_machine_is_all_that_it_waits_for(kind: ReasonKind) -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=4)
        request = await it.ask(1)
        it.says(Reason(kind=kind, text="soon"), request)
        await it.world.settle(10 * AFTER_S)
        assert it.pool_of(ID) == "home"
        assert it.text(ID) == "soon"

    play(scenario)


def test_what_home_can_never_hold_falls_back_at_once() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=16)
        request = await it.ask(1, slots=16)
        it.router.check(request)
        it.says(Reason(kind=ReasonKind.NO_SUCH_AGENT, text="too large"), request)
        await it.world.settle(AFTER_S / 2)
        assert it.pool_of(ID) == "b"

    play(scenario)


def test_what_no_pool_can_hold_hears_the_nearest_size_of_all_of_them() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=16)
        with pytest.raises(Unsatisfiable) as refused:
            it.router.check(allocation(1, slots=64, pool="home"))
        message = refused.value.message
        assert message.endswith(": the nearest size that fits is 16")
        assert message.count("nearest") == 1

    play(scenario)


def test_submission_checks_every_pool_that_may_run_it() -> None:
    async def scenario(it: Cluster) -> None:
        big = allocation(1, slots=64, pool="home")
        with pytest.raises(
            Unsatisfiable, match=r"pool 'home' is 8 .*; nor can it fall back: .*'b' has no slots"
        ):
            it.router.check(big)
        single = replace(big, single_agent=True)
        with pytest.raises(Unfulfillable):
            it.router.check(single)
        await it.world.add_agent("b1", pool="b", slots=64)
        it.router.check(big)
        stays = replace(big, requires=Requirements(may_fall_back=False))
        with pytest.raises(Unsatisfiable) as refused:
            it.router.check(stays)
        assert "fall back" not in refused.value.message

    play(scenario)


def test_what_may_not_fall_back_waits_at_home() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=4)
        stays = await it.ask(1, requires=Requirements(may_fall_back=False))
        collects = await it.ask(2, slots=0, launches_machines=False)
        it.says(QUOTA, stays, collects)
        await it.world.settle(3 * AFTER_S)
        assert [it.pool_of(id_) for id_ in (ID, "task-2.1")] == ["home", "home"]
        assert it.text(ID) == QUOTA.text

    play(scenario)


def test_nobody_is_asked_to_leave_for_it() -> None:
    """In a pool that preempts, by a request that is older and more important than what runs there."""

    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=4)
        await it.world.run_allocation(allocation(9, slots=4, pool="b"))
        request = await it.ask(1)
        await it.router.update_job(replace(request.job, priority=1))
        it.says(QUOTA, request)
        await it.world.settle(10 * AFTER_S)
        assert it.pool_of(ID) == "home"
        assert it.world.master.of("task-9.1")[-1].__class__.__name__ == "ResourceChanged"

    play(scenario)


def test_a_pool_that_can_launch_takes_one_after_the_other() -> None:
    """The second is asked about again, after the provisioner has said what is left."""

    async def scenario(it: Cluster) -> None:
        requests = [await it.ask(n) for n in (1, 2)]
        it.says(QUOTA, *requests)
        machine = LaunchableNode(slots=8, count=1, ready_in_s=60.0)
        it.world.nodes.availability(PoolAvailability(pool="c", launchable=(machine,)))
        await it.until(ID, in_pool="c")
        it.world.nodes.availability(PoolAvailability(pool="c"))
        await it.world.settle(AFTER_S)
        assert it.pool_of("task-2.1") == "home"

    play(scenario)


async def beaten(it: Cluster, request: AllocationRequest) -> Granted:
    """`request` moves to b, where another takes the slots meanwhile; the grant of that other."""
    await it.world.add_agent("b1", pool="b", slots=4)
    withdraw = it.backend.withdraw
    rival = replace(allocation(99, slots=4, pool="b"), requested=START)

    async def withdraw_late(allocation_id: str) -> Withdrawn | AlreadyGranted:
        await it.backend.request(rival)
        await it.world.master.granted(rival.allocation_id)
        return await withdraw(allocation_id)

    with mock.patch.object(it.backend, "withdraw", withdraw_late):
        it.says(QUOTA, request)
        await it.until(request.allocation_id, in_pool="b")
    return await it.world.master.granted(rival.allocation_id)


def test_it_comes_home_when_home_can_start_it_first_but_not_at_once() -> None:
    async def scenario(it: Cluster) -> None:
        request = await it.ask(1)
        await beaten(it, request)
        left_at = asyncio.get_running_loop().time()
        assert it.text(ID).startswith(
            "waits in resource pool 'b', as it could not start in 'home' (the quota of 8 is used): "
        )
        await it.world.add_agent("h1", pool="home", slots=4)
        grant = await it.world.master.granted(ID)
        assert asyncio.get_running_loop().time() - left_at >= REST_S
        assert (grant.pool, grant.why) == (None, "")
        assert it.router.away("job-1") == ()

    play(scenario)


def test_where_it_went_may_start_it_first() -> None:
    async def scenario(it: Cluster) -> None:
        request = await it.ask(1)
        await beaten(it, request)
        await it.world.add_agent("b2", pool="b", slots=4)
        assert (await it.world.master.granted(ID)).pool == "b"

    play(scenario)


async def moving(it: Cluster, call: str) -> Callable[[], None]:
    """Returns while that call of a move is under way; what it returns lets the call go on."""
    it.says(QUOTA, await it.ask(1))
    await it.world.add_agent("b1", pool="b", slots=4)
    go_on, reached = asyncio.Event(), asyncio.Event()
    real = getattr(it.backend, call)

    async def held(*arguments: object) -> object:
        reached.set()
        await go_on.wait()
        patch.stop()
        return await real(*arguments)

    patch = mock.patch.object(it.backend, call, held)
    patch.start()
    await reached.wait()
    return go_on.set


@pytest.mark.parametrize("call", ["withdraw", "request"])
def test_it_is_known_and_explained_on_its_way(call: str) -> None:
    async def scenario(it: Cluster) -> None:
        go_on = await moving(it, call)
        assert it.router.knows(ID)
        assert it.text(ID) == "moves from resource pool 'home' to 'b': the quota of 8 is used"
        await it.router.request(allocation(1, slots=2, pool="home"))
        assert await it.router.expected_start(ID) is None
        go_on()
        assert (await it.world.master.granted(ID)).pool == "b"
        await it.world.settle()
        assert len([e for e in it.world.master.of(ID) if isinstance(e, Granted)]) == 1

    play(scenario)


@pytest.mark.parametrize("how", ["withdraw", "kill"])
@pytest.mark.parametrize("call", ["withdraw", "request"])
def test_it_can_be_withdrawn_and_killed_on_its_way(call: str, how: str) -> None:
    async def scenario(it: Cluster) -> None:
        go_on = await moving(it, call)
        if how == "kill":
            await it.router.kill(ID)
        elif call == "request":
            assert await it.router.withdraw(ID) == Withdrawn(allocation_id=ID)
        else:
            withdrawing = asyncio.create_task(it.router.withdraw(ID))
            await asyncio.sleep(0)
            go_on()
            assert await withdrawing == Withdrawn(allocation_id=ID)
        go_on()
        await it.world.settle(10)
        assert not it.router.knows(ID)
        assert it.router.explain(ID) is None
        assert it.world.master.losses(ID) == []
        # What it might have got is free.
        other = allocation(5, slots=4, pool="b")
        await it.router.request(other)
        await it.world.master.granted(other.allocation_id)

    play(scenario)


def test_a_call_that_fails_is_repeated() -> None:
    async def scenario(it: Cluster) -> None:
        it.says(QUOTA, await it.ask(1))
        real, failures = it.backend.request, [OSError("no"), OSError("not yet")]

        async def failing(request: AllocationRequest) -> None:
            if failures:
                raise failures.pop()
            await real(request)

        with mock.patch.object(it.backend, "request", failing):
            await it.world.add_agent("b1", pool="b", slots=4)
            assert (await it.world.master.granted(ID)).pool == "b"
        assert failures == []

    play(scenario)


def test_one_that_home_grants_first_stays() -> None:
    async def scenario(it: Cluster) -> None:
        go_on = await moving(it, "withdraw")
        await it.world.add_agent("h1", pool="home", slots=4)
        grant = await it.world.master.granted(ID)
        go_on()
        await it.world.settle(10 * AFTER_S)
        assert (grant.pool, it.pool_of(ID)) == (None, "home")

    play(scenario)


def test_after_a_restart_it_runs_on_where_it_was_and_waits_at_home() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=16)
        first, second = limited(1), limited(2)
        for request in (first, second):
            await it.router.request(request)
        it.says(QUOTA, first)
        grant = await it.world.master.granted(ID)
        await it.router.start(ID, launch_spec(ID))
        await it.world.master.running(ID)
        runs = replace(first, pool="b", fell_back=FellBack(home="home", why=grant.why))
        await it.world.restart(
            [
                RestoreRecord(request=runs, containers=grant.containers, started=True),
                RestoreRecord(request=second),
            ]
        )
        await it.world.settle(60)
        assert (it.pool_of(ID), it.pool_of("task-2.1")) == ("b", "home")
        assert it.world.master.losses(ID) == []
        assert it.router.away("job") == ("b",)
        await it.world.add_agent("h1", pool="home", slots=8)
        third = limited(3)
        await it.router.request(third)
        await it.world.master.granted("task-2.1")
        await it.world.settle(60)
        assert (held(it, "home"), held(it, "b")) == (4, 4)

    play(scenario)


def test_where_it_runs_may_become_its_own_pool() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=16)
        first = limited(1)
        await it.router.request(first)
        it.says(QUOTA, first)
        await it.world.master.granted(ID)
        await it.router.request(replace(first, pool="b"))
        assert it.router.away("job") == ()
        await it.router.request(replace(limited(2), pool="b"))
        await it.world.master.granted("task-2.1")
        await it.router.request(replace(limited(3), pool="b"))
        await it.world.settle(10)
        assert held(it, "b") == 8

    play(scenario)


def test_all_have_their_turn_to_ask() -> None:
    """However many older ones nobody can start."""

    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=4)
        with mock.patch.object(moves, "ASKED_AT_ONCE", 3):
            requests = [await it.ask(n, slots=8) for n in range(1, 10)]
            requests.append(await it.ask(10))
            it.says(QUOTA, *requests)
            assert (await it.world.master.granted("task-10.1")).pool == "b"

    play(scenario)


def test_a_backend_that_raises_is_looked_at_again() -> None:
    async def scenario(it: Cluster) -> None:
        await it.world.add_agent("b1", pool="b", slots=4)
        it.says(QUOTA, await it.ask(1))
        with mock.patch.object(it.backend, "explain", side_effect=OSError("no")):
            await it.world.settle(AFTER_S)
        assert (await it.world.master.granted(ID)).pool == "b"

    play(scenario)


def test_the_newest_order_goes_with_it() -> None:
    async def scenario(it: Cluster) -> None:
        request = await it.ask(1)
        it.says(QUOTA, request)
        await it.world.settle(AFTER_S / 2)
        await it.router.update_job(replace(request.job, priority=7))
        await it.world.settle(AFTER_S)
        await it.world.add_agent("b1", pool="b", slots=4)
        await it.world.master.granted(ID)
        [entry] = it.router.queue("b")
        assert entry.job.priority == 7

    play(scenario)


def test_what_a_pool_can_do_is_what_it_and_those_it_falls_back_to_can() -> None:
    async def scenario(it: Cluster) -> None:
        images = {"home": False, "b": True}
        agents = it.backend
        told = {pool: Abilities(containers=able) for pool, able in images.items()}
        agents.abilities = told.get  # type: ignore[method-assign]
        assert it.router.abilities("home") == Abilities(containers=True)
        assert it.router.abilities("b") == Abilities(containers=True)
        assert it.router.abilities("c") is None
        assert it.router.abilities("gone") is None

    play(scenario)
