"""Jobs that the site will never run end their requests, or send them to another pool; nothing else does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from master.core.fall_back import FallBackRule
from master.core.reasons import ReasonKind
from provisioner.batch.base import JobRefused
from provisioner.sections.pools import ResolvedPool
from rm_backends.base import Refused, RestoreRecord
from tests.fakes.agents_world import agents_world, allocation
from tests.fakes.batch_world import BatchWorld, slurm_pool
from tests.fakes.pools import resolved_pool
from tests.fakes.virtual_time import run

ID = "task-1.1"
OTHER = resolved_pool("other")
ACCOUNT = "Invalid account (give one of yours with --account)"
RULES = {"default": FallBackRule(pools=("other",), after_s=86400.0)}
Scenario = Callable[[BatchWorld], Awaitable[None]]


def played(folder: Path, scenario: Scenario, *pools: ResolvedPool) -> None:
    async def main() -> None:
        rules = RULES if pools else None
        async with agents_world(*pools, fall_back=rules, starts=False) as world:
            batch = BatchWorld(world, folder / "jobs", slurm_pool())
            await batch.start()
            await scenario(batch)

    run(main(), limit_s=24 * 3600)


def refusal(text: str = ACCOUNT, *, final: bool = True) -> JobRefused:
    return JobRefused(text, kind=ReasonKind.QUOTA, passing=False, final=final)


def refusals(batch: BatchWorld, allocation_id: str = ID) -> list[str]:
    return [
        event.reason for event in batch.world.master.of(allocation_id) if isinstance(event, Refused)
    ]


async def asked(batch: BatchWorld, numbers: Iterable[int] = (1,)) -> None:
    """As the master asks."""
    world = batch.world
    manager = world.backend if world.fall_back is None else world.router
    for number in numbers:
        await manager.request(allocation(number, slots=4))


@pytest.mark.slow
def test_a_request_that_the_site_refuses_for_good_ends_once_that_is_sure(tmp_path: Path) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.refusal = refusal()
        await asked(batch)
        await batch.world.settle(15)
        assert refusals(batch) == []
        reason = batch.world.backend.explain(ID)
        assert reason is not None
        assert ACCOUNT in reason.text
        await batch.world.settle(3600)
        assert refusals(batch) == [f"Slurm refuses its job: {ACCOUNT}"]
        await batch.world.backend.withdraw(ID)  # as the master does when it ends
        await batch.world.settle(60)
        assert batch.is_quiet()

    played(tmp_path, scenario)


def test_a_job_that_the_site_took_and_will_never_start_is_cancelled(tmp_path: Path) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back, batch.site.never = True, "ask for fewer nodes"
        await asked(batch)
        await batch.world.master.until(lambda: bool(refusals(batch)))
        assert refusals(batch) == [
            "Slurm job 1 in partition gpu is pending: QOSMaxNode: it will never start like this: ask for fewer nodes"
        ]
        await batch.world.backend.withdraw(ID)
        await batch.world.settle(60)
        assert batch.is_quiet()

    played(tmp_path, scenario)


@pytest.mark.slow
def test_what_may_pass_only_waits(tmp_path: Path) -> None:
    """And what was final once, and is so no more, is not: the time begins anew."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.refusal = refusal("the plug-in of this site says no", final=False)
        await asked(batch)
        await batch.world.settle(7200)
        assert refusals(batch) == []
        batch.site.refusal, batch.site.holds_back = None, True
        await batch.world.master.until(lambda: True)
        while not batch.site.submissions:
            await batch.world.settle(1)
        for _ in range(5):
            batch.site.never = "ask for fewer nodes"
            await batch.world.settle(12)
            batch.site.never = ""
            await batch.world.settle(12)
        assert refusals(batch) == []
        batch.site.holds_back = False
        await batch.world.master.granted(ID)
        assert len(batch.site.submissions) == 1

    played(tmp_path, scenario)


def test_a_site_that_was_away_meanwhile_has_to_say_it_anew(tmp_path: Path) -> None:
    """Its controller may just have started, and not know everything yet."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.holds_back, batch.site.never = True, "ask for fewer nodes"
        await asked(batch)
        while not batch.dispatcher.leases() or batch.dispatcher.leases()[0].never_since is None:
            await batch.world.settle(1)
        batch.site.down = True
        await batch.world.settle(60)
        batch.site.down = False
        while batch.dispatcher._poller.trouble():
            await batch.world.settle(1)
        await batch.world.settle(10)
        assert refusals(batch) == []
        await batch.world.master.until(lambda: bool(refusals(batch)))

    played(tmp_path, scenario)


def test_it_is_told_again_by_a_master_that_was_restarted(tmp_path: Path) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.refusal = refusal()
        batch.world.master.open.clear()
        await asked(batch)
        await batch.world.master.until(lambda: bool(batch.world.master.waiting_events))
        await batch.restart(RestoreRecord(request=allocation(1, slots=4)))
        batch.world.master.open.set()
        await batch.world.master.until(lambda: bool(refusals(batch)))
        await batch.world.settle(120)
        assert len(refusals(batch)) == 1

    played(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("took_it", [False, True])
def test_a_pool_that_it_falls_back_to_is_asked_first(tmp_path: Path, took_it: bool) -> None:
    """Long before the time after which pools that cannot serve a request now are left."""

    async def scenario(batch: BatchWorld) -> None:
        batch.site.refusal = None if took_it else refusal()
        batch.site.holds_back, batch.site.never = True, "ask for fewer nodes"
        await batch.world.add_agent("o1", pool="other", slots=4)
        await asked(batch, (1, 2))
        (first, second), grant_of = (ID, "task-2.1"), batch.world.master.grant_of
        await batch.world.settle(60)
        grants = {id_: grant for id_ in (first, second) if (grant := grant_of(id_)) is not None}
        ((moved, grant),) = grants.items()
        assert grant.pool == "other"
        assert "ask for fewer nodes" in grant.why if took_it else ACCOUNT in grant.why
        (waits,) = {first, second} - {moved}
        await batch.world.settle(3600)
        assert refusals(batch, waits) == [], "it may start there when that pool is free"
        await batch.world.router.kill(moved)
        await batch.world.master.granted(waits)
        await batch.world.settle(60)
        assert all(job.cause is not None for job in batch.site.jobs.values())

    played(tmp_path, scenario, OTHER)


def test_it_ends_where_no_other_pool_could_ever_take_it(tmp_path: Path) -> None:
    async def scenario(batch: BatchWorld) -> None:
        batch.site.refusal = refusal()
        await batch.world.add_agent("o1", pool="other", slots=2)
        await asked(batch)
        await batch.world.master.until(lambda: bool(refusals(batch)))
        assert batch.world.router.knows(ID)
        await batch.world.router.withdraw(ID)
        await batch.world.settle(60)
        assert batch.is_quiet()

    played(tmp_path, scenario, OTHER)
