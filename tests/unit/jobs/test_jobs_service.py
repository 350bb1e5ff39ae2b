"""The job service over jobs and queues in memory: listing, finding, explaining, changing, moving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from jobs_queue_world import (
    FAIR_SHARE,
    NOW,
    PRIORITY,
    ROUND_ROBIN,
    MemoryCluster,
    entry,
    facts,
)

from master.auth.actions import Action, Target
from master.auth.permissions import allowed, denial
from master.auth.principal import Principal
from master.core.jobs import JobType, SetMaxSlots, SetPool, SetPriority, SetWeight
from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.types import SchedulerSettings
from master.core.visibility import EVERYTHING, Visibility
from master.jobs.changes import JobUpdate, UpdatesFailed
from master.jobs.service import MAX_EXPLAINED, JobService
from master.store.store import Store
from windlass.base.errors import Conflict, InvalidArgument, LeaseLost, NotFound, PermissionDenied

ADMIN = Principal(user_id=1, name="admin", admin=True)


def rights_of(by: Principal) -> Callable[[Action, Target], None]:
    def require(action: Action, target: Target) -> None:
        if not allowed(by, action, target):
            raise denial(by, action, target)

    return require


@pytest.fixture
def cluster() -> MemoryCluster:
    """Three jobs a minute apart in a pool with priorities, one in a pool with shares."""
    cluster = MemoryCluster({"gpu": PRIORITY, "shared": FAIR_SHARE})
    cluster.add(facts("aa"), facts("ab", 60), facts("c", 120), facts("d", pool="shared"))
    cluster.entries = [entry(job.facts) for job in cluster.job_roots()]
    return cluster


@pytest.fixture
def service(cluster: MemoryCluster, memory_store: Store) -> JobService:
    return cluster.service(memory_store)


def order(service: JobService, pool: str = "gpu") -> list[str]:
    return [job.facts.job_id for job in service.queue(pool, EVERYTHING)]


def requeue(cluster: MemoryCluster) -> None:
    """The pools hear of the changes."""
    cluster.entries = [entry(job.facts) for job in cluster.job_roots()]


def test_a_job_is_found_by_how_its_id_begins(service: JobService) -> None:
    assert service.find("ab", EVERYTHING).job_id == "ab"
    assert service.find("c", EVERYTHING).job_id == "c"
    with pytest.raises(Conflict, match="2 jobs have ids that begin with 'a': write more of aa, ab"):
        service.find("a", EVERYTHING)
    for word in ("x", ""):
        with pytest.raises(NotFound):
            service.find(word, EVERYTHING)


def test_only_jobs_that_ask_for_something_are_in_the_queue(
    service: JobService, cluster: MemoryCluster
) -> None:
    cluster.entries = cluster.entries[1:]
    assert order(service) == ["ab", "c"]
    assert service.in_queue("aa") is None
    assert service.in_queue("nobody") is None
    found = service.in_queue("c")
    assert found is not None
    assert found.jobs_ahead == 1
    with pytest.raises(NotFound, match="resource pool 'nowhere'"):
        service.queue("nowhere", EVERYTHING)


async def test_moves_go_through_all_jobs_of_the_pool(
    service: JobService, cluster: MemoryCluster
) -> None:
    await service.move("c", ahead_of="ab", by=ADMIN)
    assert cluster.place("c") == (Decimal(NOW.timestamp()) + 30, 42)
    requeue(cluster)
    assert order(service) == ["aa", "c", "ab"]
    await service.move("c", ahead_of="ab", by=ADMIN)
    assert len(cluster.jobs["c"].changes) == 1, "it is there already"
    cluster.entries = []  # all of them are paused: places stay
    await service.move("aa", behind_of="c", by=ADMIN)
    requeue(cluster)
    assert order(service) == ["c", "aa", "ab"]


async def test_moves_at_the_same_time_are_made_one_after_the_other(
    service: JobService, cluster: MemoryCluster
) -> None:
    await asyncio.gather(
        service.move("aa", behind_of="c", by=ADMIN), service.move("ab", behind_of="c", by=ADMIN)
    )
    requeue(cluster)
    assert order(service) == ["c", "ab", "aa"]


async def test_moves_that_cannot_be(service: JobService, cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound, match="job 'nobody'"):
        await service.move("aa", ahead_of="nobody", by=ADMIN)
    with pytest.raises(InvalidArgument, match="job aa is in pool gpu and job d in shared"):
        await service.move("aa", behind_of="d", by=ADMIN)
    cluster.add(facts("e", 5, pool="shared"))
    with pytest.raises(InvalidArgument, match="fair_share, which keeps no order"):
        await service.move("d", behind_of="e", by=ADMIN)
    with pytest.raises(InvalidArgument, match="exactly one"):
        await service.move("d", by=ADMIN)
    assert not any(job.changes for job in cluster.jobs.values())


async def test_every_update_of_a_batch_is_tried_and_each_failure_names_its_job(
    service: JobService, cluster: MemoryCluster
) -> None:
    cluster.add(facts("cmd", 5, type=JobType.COMMAND))
    with pytest.raises(UpdatesFailed) as failed:
        await service.update_all(
            [
                JobUpdate(job_id="aa", priority=7),
                JobUpdate(job_id="nobody", priority=7),
                JobUpdate(job_id="ab", priority=100),
                JobUpdate(job_id="c"),
                JobUpdate(job_id="c", weight=0.0),
                JobUpdate(job_id="c", weight=2.0, priority=3),
                JobUpdate(job_id="cmd", resource_pool="shared"),
                JobUpdate(job_id="d", weight=2.5),
                JobUpdate(job_id="c", resource_pool="shared"),
            ],
            by=ADMIN,
            require=rights_of(ADMIN),
        )
    message = failed.value.message
    assert message.startswith("6 of 9 updates failed: job nobody: job 'nobody' not found; job ab: ")
    for said in ("priority must be 1", "has none", "weight must be", "has 2", "only experiments"):
        assert said in message
    assert failed.value.code == InvalidArgument.code, "they do not agree"
    assert cluster.jobs["aa"].changes == [SetPriority(7)]
    assert cluster.jobs["d"].changes == [SetWeight(2.5)]
    assert cluster.jobs["c"].changes == [SetPool("shared")]
    assert not cluster.jobs["cmd"].changes


async def test_only_the_owner_and_administrators_change_a_job(
    service: JobService, cluster: MemoryCluster
) -> None:
    owner = cluster.jobs["aa"].facts.owner_id
    mine = Principal(user_id=owner, name="owner", admin=False)
    other = Principal(user_id=owner + 1, name="other", admin=False)
    task = Principal(user_id=owner, name="owner", admin=True, allocation_id="t.1", task_id="t")
    update = [JobUpdate(job_id="aa", priority=7)]
    for refused in (other, task):
        with pytest.raises(PermissionDenied):
            await service.update_all(update, by=refused, require=rights_of(refused))
    assert not cluster.jobs["aa"].changes
    for permitted in (mine, ADMIN):
        await service.update_all(update, by=permitted, require=rights_of(permitted))
    assert cluster.jobs["aa"].changes == [SetPriority(7), SetPriority(7)]


def test_jobs_of_other_workspaces_are_not_there(
    service: JobService, cluster: MemoryCluster
) -> None:
    here = Visibility(frozenset({cluster.jobs["aa"].facts.workspace_id}))
    elsewhere = Visibility(frozenset({1000}))
    assert service.queue("gpu", here) == service.queue("gpu", EVERYTHING)
    assert service.queue("gpu", elsewhere) == []
    assert service.find("aa", here).job_id == "aa"
    with pytest.raises(NotFound):
        service.find("aa", elsewhere)


async def test_failures_that_agree_keep_their_code_and_one_alone_its_error(
    service: JobService, cluster: MemoryCluster
) -> None:
    missing = [JobUpdate(job_id="x", priority=1), JobUpdate(job_id="y", priority=1)]
    with pytest.raises(UpdatesFailed) as failed:
        await service.update_all(missing, by=ADMIN, require=rights_of(ADMIN))
    assert failed.value.code == NotFound.code
    with pytest.raises(NotFound):
        await service.update_all(missing[:1], by=ADMIN, require=rights_of(ADMIN))
    cluster.jobs["aa"].broken = LeaseLost("another master leads")
    with pytest.raises(LeaseLost):
        await service.update_all(
            [JobUpdate(job_id="aa", priority=1), *missing], by=ADMIN, require=rights_of(ADMIN)
        )


async def test_limits_are_changed_too(service: JobService, cluster: MemoryCluster) -> None:
    await service.update("aa", SetMaxSlots(None), by=ADMIN)
    assert cluster.jobs["aa"].changes == [SetMaxSlots(None)]
    with pytest.raises(NotFound):
        await service.update("nobody", SetMaxSlots(1), by=ADMIN)


async def test_an_explanation_tells_of_what_waits_and_of_what_runs(
    service: JobService, cluster: MemoryCluster
) -> None:
    job = cluster.jobs["c"]
    job.facts = facts("c", 120, last_release="made room for aa")
    job.waiting = ["c.3", "c.4"]
    cluster.entries += [
        entry(job.facts, 2, slots=2, state="scheduled", releasing=True),
        entry(job.facts, 3, slots=4),
    ]
    cluster.reasons = {"c.3": Reason(kind=ReasonKind.QUOTA, text="the quota is used up")}
    cluster.starts = {"c.3": NOW + timedelta(hours=1)}
    cluster.running_since = {"c.2": NOW + timedelta(minutes=5)}
    explained = await service.explain("c")
    first, second = explained.waiting
    assert (first.name, first.slots) == ("Trial 3", 4)
    assert first.since == NOW + timedelta(seconds=123)
    assert first.reason.text == "the quota is used up"
    assert "larger quota" in first.advice
    assert first.expected_start == NOW + timedelta(hours=1)
    assert (second.name, second.slots, second.expected_start) == ("c.4", None, None)
    assert second.reason.kind is ReasonKind.STARTING, "asked for, but not in the queue yet"
    (holding,) = explained.holding
    assert (holding.since, holding.placement) == (NOW + timedelta(minutes=5), {"node": 2})
    assert holding.is_releasing
    assert explained.facts.last_release == "made room for aa"
    assert explained.text == "holds 2 slots, 2 requests waiting for slots, 2 jobs ahead"


async def test_a_run_is_told_of_once_while_its_grant_is_being_committed(
    service: JobService, cluster: MemoryCluster
) -> None:
    granted = Reason(kind=ReasonKind.STARTING, text="slots are granted")
    job = cluster.jobs["c"]
    job.waiting = ["c.1"]
    cluster.entries = [entry(job.facts, state="scheduled", reason=granted)]
    explained = await service.explain("c")
    assert [(run.allocation_id, run.reason) for run in explained.waiting] == [("c.1", granted)]
    assert explained.holding == ()


async def test_a_long_list_of_waiting_runs_is_cut(
    service: JobService, cluster: MemoryCluster
) -> None:
    cluster.jobs["c"].waiting = [f"c.{n}" for n in range(MAX_EXPLAINED + 5)]
    explained = await service.explain("c")
    assert [run.allocation_id for run in explained.waiting] == [
        f"c.{n}" for n in range(MAX_EXPLAINED)
    ]
    assert explained.waiting_total == MAX_EXPLAINED + 5


async def test_a_job_whose_pool_is_gone_is_explained_too(
    service: JobService, cluster: MemoryCluster
) -> None:
    cluster.add(facts("lost", pool="gone"))
    cluster.jobs["lost"].waiting = ["lost.1"]
    gone = Reason(kind=ReasonKind.NO_SUCH_AGENT, text="there is no resource pool 'gone' any more")
    cluster.reasons = {"lost.1": gone}
    explained = await service.explain("lost")
    assert explained.queued is None
    (run,) = explained.waiting
    assert run.reason == gone
    assert run.advice.startswith("add pool gone to the master's configuration again")
    with pytest.raises(NotFound):
        await service.explain("nobody")


@pytest.mark.parametrize("settings", [PRIORITY, FAIR_SHARE, ROUND_ROBIN])
def test_one_job_is_told_as_in_the_whole_queue(
    settings: SchedulerSettings, memory_store: Store
) -> None:
    cluster = MemoryCluster({"gpu": settings})
    cluster.add(*(facts(f"j{n}", 60 * n, priority=40 + n % 3) for n in range(7)))
    known = [job.facts for job in cluster.job_roots()]
    cluster.entries = [
        *(entry(job, 2, slots=2) for job in known[::2]),
        *(entry(job, 1, state="scheduled") for job in known[1::3]),
        entry(facts("nobody", -60, priority=1), state="scheduled"),
        entry(facts("nobody", -60, priority=1), 2),
    ]
    service = cluster.service(memory_store)
    whole = service.queue("gpu", EVERYTHING)
    assert len(whole) == 5
    assert [service.in_queue(job.facts.job_id) for job in whole] == whole


def test_lists_of_jobs_are_made_without_a_view_of_each_allocation(
    service: JobService, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = cluster.jobs_in("gpu")
    monkeypatch.setattr(cluster, "jobs_in", lambda pool: jobs)
    monkeypatch.setattr(cluster, "queue", lambda *_: pytest.fail("all allocations were asked for"))
    assert service.in_queue("c") in service.queue("gpu", EVERYTHING)


def test_a_job_is_in_the_queue_of_the_pool_that_it_fell_back_to(
    cluster: MemoryCluster, service: JobService
) -> None:
    job = cluster.jobs["c"].facts
    cluster.entries = [entry(job, pool="shared", state="scheduled")]
    queued = service.in_queue("c")
    assert queued is not None
    assert (queued.pool, queued.facts.pool) == ("shared", "gpu")
    assert order(service, "shared") == ["c"]
    assert order(service) == []
    cluster.entries += [entry(job, 2)]
    again = service.in_queue("c")
    assert again is not None
    assert again.pool == "shared", "it holds slots there, and waits at home"
    cluster.entries = [entry(job, pool="shared"), entry(job, 2)]
    at_home = service.in_queue("c")
    assert at_home is not None
    assert at_home.pool == "gpu"


async def test_what_waits_in_another_pool_gets_the_advice_of_that_pool(
    cluster: MemoryCluster, service: JobService
) -> None:
    job = cluster.jobs["c"].facts
    cluster.jobs["c"].waiting = ["c.1"]
    cluster.entries = [entry(job, pool="shared")]
    cluster.reasons["c.1"] = Reason(kind=ReasonKind.AT_LIMIT, text="at its limit")
    [waiting] = (await service.explain("c")).waiting
    assert "max_instances of pool shared" in waiting.advice
