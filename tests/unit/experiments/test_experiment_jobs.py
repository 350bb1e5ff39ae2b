"""Experiments as jobs of the queue: changes are committed before they are told, and survive a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest
from sqlalchemy import select

from master.core.jobs import (
    JobChange,
    JobType,
    SetMaxSlots,
    SetPlace,
    SetPool,
    SetPriority,
    SetWeight,
)
from master.experiments.lifecycle.state import Phase
from master.experiments.live import LiveExperiment
from master.experiments.metadata import ExperimentMetadata, MetadataPatch
from master.experiments.reports.service import CheckpointReport
from master.jobs.ports import JobRoot, JobSource
from master.store import tables
from master.workspace_rules import WorkspaceRules
from rm_backends.base import AllocationHint, ContainerPhase, JobOrder, ReleaseAsked
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument, NotFound, StoreUnavailable, Unsatisfiable

SINGLE = """
name: tiny
entrypoint: python3 train.py
searcher: {name: single, metric: loss, smaller_is_better: true}
hyperparameters: {lr: 0.5}
max_restarts: 0
resources: {slots_per_trial: 2, priority: 42, weight: 2, max_slots: 8}
"""
MANY = SINGLE.replace("name: single,", "name: random, max_trials: 4, max_concurrent_trials: 4,")
PLACE = Decimal("1767225600.0000000000000000000000000000000000000000001")
"""More digits than a float or a database number has."""

Life: TypeAlias = Callable[[], AbstractAsyncContextManager[ScriptedCluster]]


@pytest.fixture(params=["sqlite", "postgresql"])
def life(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Life:
    """Starts the master of one and the same cluster, as often as it is called; leaving it is a crash."""
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgresql" else None

    @asynccontextmanager
    async def start() -> AsyncIterator[ScriptedCluster]:
        started = await ScriptedCluster.start(tmp_path, clock, url=url)
        try:
            yield started
        finally:
            await started.crash()

    return start


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    started = await ScriptedCluster.start(tmp_path, clock)
    yield started
    await started.crash()


async def stored(cluster: ScriptedCluster) -> tables.Experiment:
    experiment = tables.Experiment
    row = await cluster.store.read_one(select(experiment).where(experiment.id == 1))
    assert row is not None
    return row


async def run_one(cluster: ScriptedCluster) -> None:
    """The only experiment's run holds slots and is ready."""
    await cluster.grant()
    await cluster.report(ContainerPhase.RUNNING)
    await cluster.allocations.mark_ready(cluster.run.id)
    cluster.rm.take()


CHANGES: list[tuple[JobChange, dict[str, Any]]] = [
    (SetPriority(7), {"priority": 7}),
    (SetWeight(0.25), {"weight": 0.25}),
    (SetMaxSlots(1), {"max_slots": 1}),
    (SetMaxSlots(None), {"max_slots": None}),
    (SetPlace(PLACE, 9), {"position": PLACE, "priority": 9}),
    (SetPlace(PLACE, None), {"position": PLACE}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "changed"), CHANGES)
async def test_a_change_is_committed_told_and_survives(
    life: Life, change: JobChange, changed: dict[str, Any]
) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        expected = replace(live.job_order(), **changed)
        await live.change_job(change, by=ADMIN)
        assert cluster.store.commits == 2
        assert cluster.rm.orders == [expected]
        check_config(live, expected)
        row = await stored(cluster)
        assert row.config == live.config.to_json()
        assert row.queue_position == (str(PLACE) if expected.position else None)
    async with life() as cluster:
        (record,) = cluster.rm.records
        assert record.request.job == expected
        assert cluster.only.job_order() == expected
        check_config(cluster.only, expected)
        await run_one(cluster)
        environment = cluster.rm.specs[cluster.run.id].environment
        assert orjson.loads(environment["DET_EXPERIMENT_CONFIG"]) == row.config


def check_config(live: LiveExperiment, order: JobOrder) -> None:
    said = live.config.to_json()["resources"]
    assert (said["priority"], said["weight"]) == (order.priority, order.weight)
    assert said["max_slots"] == order.max_slots


async def test_the_same_value_again_writes_and_says_nothing(cluster: ScriptedCluster) -> None:
    live = await cluster.create(SINGLE)
    for same in (SetPriority(42), SetWeight(2.0), SetMaxSlots(8)):
        await live.change_job(same, by=ADMIN)
    assert cluster.store.commits == 1
    assert cluster.rm.orders == []


async def test_a_new_priority_gives_up_the_place(life: Life) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        await live.change_job(SetPlace(PLACE, None), by=ADMIN)
        await live.change_job(SetPriority(7), by=ADMIN)
        assert [order.position for order in cluster.rm.orders] == [PLACE, None]
        assert (await stored(cluster)).queue_position is None
    async with life() as cluster:
        assert cluster.only.job_order().position is None


@pytest.mark.slow
async def test_a_paused_experiment_keeps_its_place(life: Life) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        await live.change_job(SetPlace(PLACE, None), by=ADMIN)
        await cluster.experiments.pause(1, by=ADMIN)
        assert live.waiting_allocations() == []
    async with life() as cluster:
        await cluster.experiments.activate(1, by=ADMIN)
        assert cluster.rm.requests[cluster.run.id].job.position == PLACE


async def test_a_change_that_cannot_be_committed_is_none(cluster: ScriptedCluster) -> None:
    live = await cluster.create(SINGLE)
    order, config = live.job_order(), live.config
    cluster.store.full = True
    with pytest.raises(StoreUnavailable):
        await live.change_job(SetPriority(1), by=ADMIN)
    with pytest.raises(StoreUnavailable):
        await live.change_job(SetPool("other"), by=ADMIN)
    assert (live.job_order(), live.config) == (order, config)
    assert cluster.rm.orders == []
    assert cluster.run.pool == "default"


async def test_a_change_that_could_not_be_told_is_told_later(cluster: ScriptedCluster) -> None:
    live = await cluster.create(SINGLE)
    cluster.rm.deaf = True
    await live.change_job(SetPriority(1), by=ADMIN)
    await cluster.experiments.roots.tick()
    assert live.job_order().priority == 1
    assert cluster.rm.orders == []
    cluster.rm.deaf = False
    await cluster.experiments.roots.tick()
    await cluster.experiments.roots.tick()
    assert cluster.rm.orders == [live.job_order()]


@pytest.mark.slow
async def test_a_change_cut_off_before_it_was_told_comes_with_the_restart(life: Life) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        await cluster.cut_after(1, live.change_job(SetPriority(1), by=ADMIN))
        assert cluster.rm.orders == []
    async with life() as cluster:
        (record,) = cluster.rm.records
        assert record.request.job.priority == 1


async def test_a_rename_and_a_change_do_not_undo_each_other(life: Life) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        rules = WorkspaceRules(cluster.store, lambda: ("default", "other"))
        metadata = ExperimentMetadata(
            store=cluster.store, experiments=cluster.experiments, rules=rules
        )
        await asyncio.gather(
            live.change_job(SetPriority(7), by=ADMIN),
            metadata.patch(1, MetadataPatch(name="second", labels=["a"]), by=ADMIN),
            live.change_job(SetWeight(3.0), by=ADMIN),
            metadata.patch(1, MetadataPatch(description="words"), by=ADMIN),
            live.change_job(SetPool("other"), by=ADMIN),
        )
        config = (await stored(cluster)).config
        assert config == live.config.to_json()
    assert (config["name"], config["labels"], config["description"]) == ("second", ["a"], "words")
    resources = config["resources"]
    assert (resources["priority"], resources["weight"]) == (7, 3.0)
    assert resources["resource_pool"] == "other"


@pytest.mark.slow
async def test_a_running_trial_moves_with_its_checkpoint_and_all_settings(life: Life) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        await live.change_job(SetPlace(PLACE, 7), by=ADMIN)
        await run_one(cluster)
        first = cluster.run.id
        before = replace(cluster.rm.requests[first], job=live.job_order())
        await live.change_job(SetPool("other"), by=ADMIN)
        assert cluster.rm.take() == [("release", first)]
        assert await cluster.allocations.preemption_signal(first, 0)
        await cluster.allocations.acknowledge_preemption(first)
        await cluster.reports.checkpoint(checkpoint(cluster, "saved"))
        await cluster.exit(0)
        assert cluster.rm.take() == [("request", cluster.run.id)]
        after = cluster.rm.requests[cluster.run.id]
        assert after.leave_took_s == 0.0, "as its last run did"
        assert replace(after, pool="default", allocation_id=first, leave_took_s=None) == before
        assert (after.pool, cluster.trial.restarts) == ("other", 0)
        row = await stored(cluster)
        assert (row.resource_pool, row.queue_position) == ("other", str(PLACE))
        assert row.config["resources"]["resource_pool"] == "other"
    async with life() as cluster:
        assert cluster.only.job_facts().pool == "other"
        await run_one(cluster)
        assert cluster.rm.specs[cluster.run.id].environment["DET_LATEST_CHECKPOINT"] == "saved"
        await cluster.exit(0)
        assert cluster.only.state.phase is Phase.COMPLETED


def checkpoint(
    cluster: ScriptedCluster, uuid: str, *, state: str = "COMPLETED"
) -> CheckpointReport:
    return CheckpointReport(
        uuid=uuid,
        task_id=cluster.run.task_id,
        state=state,
        allocation_id=cluster.run.id,
        resources={"model": 10},
        metadata={"steps_completed": 3},
    )


async def test_a_waiting_trial_moves_at_once(cluster: ScriptedCluster) -> None:
    live = await cluster.create(SINGLE)
    old = cluster.run.id
    cluster.rm.take()
    await live.change_job(SetPool("other"), by=ADMIN)
    assert cluster.store.commits == 2
    assert cluster.rm.take() == [("withdraw", old), ("request", cluster.run.id)]
    assert cluster.rm.requests[cluster.run.id].pool == "other"


async def create(cluster: ScriptedCluster) -> None:
    await cluster.create(SINGLE)


MOVE: list[Callable[[ScriptedCluster], Coroutine[Any, Any, object]]] = [
    create,
    lambda c: c.only.change_job(SetPlace(PLACE, 7), by=ADMIN),
    lambda c: c.only.change_job(SetPool("other"), by=ADMIN),
    lambda c: c.grant(),
    lambda c: c.report(ContainerPhase.RUNNING),
    lambda c: c.allocations.mark_ready(c.run.id),
    lambda c: c.only.change_job(SetPool("default"), by=ADMIN),
    lambda c: c.only.change_job(SetMaxSlots(4), by=ADMIN),
    lambda c: c.allocations.acknowledge_preemption(c.run.id),
    lambda c: c.exit(0),
    lambda c: c.grant(),
    lambda c: c.report(ContainerPhase.RUNNING),
]
"""One commit each: there and back, first while it waits, then while it runs."""


@pytest.mark.slow
@pytest.mark.parametrize("cut", range(1, len(MOVE) + 1))
async def test_a_crash_after_any_commit_continues_the_move(life: Life, cut: int) -> None:
    async with life() as cluster:
        for do in MOVE[: cut - 1]:
            await do(cluster)
        assert cluster.store.commits == cut - 1
        await cluster.cut_after(1, MOVE[cut - 1](cluster))
    async with life() as cluster:
        (record,) = cluster.rm.records
        run = cluster.run
        assert record.request.pool == run.pool
        assert record.request.job == cluster.only.job_order()
        leaves = run.preempt_requested or run.kill_reason is not None
        assert leaves or run.pool == cluster.only.state.settings.pool
        for do in MOVE[cut:]:
            await do(cluster)
        assert (cluster.run.pool, cluster.run.run_id) == ("default", 3)
        order = cluster.only.job_order()
        assert (order.position, order.priority, order.max_slots) == (PLACE, 7, 4)
        assert cluster.trial.restarts == 0
        await cluster.exit(0)
        assert cluster.only.state.phase is Phase.COMPLETED


@pytest.mark.slow
async def test_a_crash_directly_after_the_commit_continues_the_move(life: Life) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        await run_one(cluster)
        await cluster.cut_after(1, live.change_job(SetPool("other"), by=ADMIN))
        assert cluster.rm.take() == []
    async with life() as cluster:
        assert cluster.rm.take() == [("release", cluster.run.id)]
        assert await cluster.allocations.preemption_signal(cluster.run.id, 0)
        await cluster.allocations.acknowledge_preemption(cluster.run.id)
        await cluster.cut_after(1, cluster.exit(0))
    async with life() as cluster:
        (record,) = cluster.rm.records
        assert (record.request.pool, record.containers) == ("other", ())
        assert (cluster.trial.run_id, cluster.trial.restarts) == (2, 0)


async def test_a_crash_after_the_move_of_what_waits_asks_in_the_new_pool_only(life: Life) -> None:
    async with life() as cluster:
        live = await cluster.create(SINGLE)
        await cluster.cut_after(1, live.change_job(SetPool("other"), by=ADMIN))
    async with life() as cluster:
        assert [record.request.pool for record in cluster.rm.records] == ["other"]


async def test_a_grant_that_the_move_overtakes_is_given_back(cluster: ScriptedCluster) -> None:
    live = await cluster.create(SINGLE)
    old = cluster.run.id
    cluster.rm.granted.add(old)
    cluster.rm.take()
    await live.change_job(SetPool("other"), by=ADMIN)
    assert cluster.rm.take() == [("withdraw", old), ("kill", old), ("request", cluster.run.id)]


@pytest.mark.parametrize(
    ("pool", "error", "says"),
    [
        ("nowhere", NotFound, "resource pool 'nowhere' not found"),
        ("default", InvalidArgument, "in resource pool 'default' already"),
        ("other", Unsatisfiable, "agents of pool other have 1 slot"),
    ],
)
async def test_where_an_experiment_cannot_go(
    cluster: ScriptedCluster, pool: str, error: type[Exception], says: str
) -> None:
    live = await cluster.create(SINGLE)
    cluster.rm.too_small["other"] = "agents of pool other have 1 slot"
    with pytest.raises(error, match=says):
        await live.change_job(SetPool(pool), by=ADMIN)
    assert live.job_facts().pool == "default"
    assert cluster.store.commits == 1


async def test_without_launch_errors_it_may_wait_where_nothing_fits(
    tmp_path: Path, clock: ManualClock
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock, launch_error=False)
    live = await cluster.create(SINGLE)
    cluster.rm.too_small["other"] = "agents of pool other have 1 slot"
    await live.change_job(SetPool("other"), by=ADMIN)
    assert cluster.run.pool == "other"
    cluster.rm.too_large = {"default"}
    with pytest.raises(Unsatisfiable, match="request unfulfillable"):
        await live.change_job(SetPool("default"), by=ADMIN)
    await cluster.crash()


async def test_facts_of_a_job(cluster: ScriptedCluster) -> None:
    live = await cluster.create(SINGLE)
    source: JobSource = cluster.experiments.roots
    root: JobRoot | None = source.job_root(live.state.job_id)
    assert root is live
    facts = live.job_facts()
    assert (facts.type, facts.entity_id, facts.name) == (JobType.EXPERIMENT, "1", "tiny")
    assert (facts.owner_id, facts.owner_name, facts.workspace_id) == (1, "admin", 1)
    assert facts.order == live.job_order()
    assert facts.last_release == ""
    assert live.waiting_allocations() == [cluster.run.id]
    await run_one(cluster)
    assert live.waiting_allocations() == []
    await cluster.exit(0)
    assert source.job_root(live.state.job_id) is None
    assert source.job_roots() == []
    assert source.job_root("unknown") is None


async def test_waiting_allocations_are_those_without_slots_oldest_first(
    cluster: ScriptedCluster, clock: ManualClock
) -> None:
    live = await cluster.create(MANY)
    first, *others = [t.allocation for t in live.state.trials.values()]
    assert first is not None
    clock.advance(1)
    lost = ReleaseAsked(allocation_id=first.id, reason="never mind")
    await cluster.allocations.handle(lost)
    waiting = live.waiting_allocations()
    assert len(waiting) == 4
    assert waiting[-1] == first.id.removesuffix(".1") + ".2"
    assert set(waiting[:3]) == {run.id for run in others if run is not None}


@pytest.mark.slow
async def test_the_last_release_survives_in_the_run_it_ended(life: Life) -> None:
    async with life() as cluster:
        await cluster.create(SINGLE)
        await run_one(cluster)
        asked = ReleaseAsked(allocation_id=cluster.run.id, reason="job b is below its share")
        await cluster.allocations.handle(asked)
        assert cluster.only.job_facts().last_release == "job b is below its share"
    async with life() as cluster:
        assert cluster.only.job_facts().last_release == "job b is below its share"


@pytest.mark.slow
async def test_run_times_are_learned_from_finished_trials_and_survive(
    life: Life, clock: ManualClock
) -> None:
    async with life() as cluster:
        live = await cluster.create(MANY)
        assert live.job_order().run_time_s is None
        for seconds in (100, 105, 300):
            await finish_one(cluster, live, seconds)
        told = [order.run_time_s for order in cluster.rm.orders]
        assert told == [100.0], "102.5 and 105 are not worth telling"
    async with life() as cluster:
        (record,) = cluster.rm.records
        assert record.request.job.run_time_s == 105.0
        assert cluster.rm.orders == []
        assert cluster.rm.notes == [], "what waits has no end yet"
        (run,) = [r for t in cluster.only.state.trials.values() if (r := t.open_allocation)]
        await cluster.grant(of=run)
        await cluster.report(ContainerPhase.RUNNING, of=run)
        began = clock.now()
        clock.advance(50)
    async with life() as cluster:
        end = began + timedelta(seconds=105)
        assert cluster.rm.notes == [AllocationHint(allocation_id=run.id, expected_end=end)]


async def finish_one(cluster: ScriptedCluster, live: LiveExperiment, seconds: float) -> None:
    """The next trial runs for so long and ends well."""
    running = next(t for t in live.state.trials.values() if t.open_allocation is not None)
    run = running.open_allocation
    assert run is not None
    await cluster.grant(of=run)
    await cluster.report(ContainerPhase.RUNNING, of=run)
    cluster.clock.advance(seconds)
    await cluster.exit(0, of=run)


async def test_the_pace_of_a_run_tells_its_end(
    cluster: ScriptedCluster, clock: ManualClock
) -> None:
    await cluster.create(SINGLE)
    await run_one(cluster)
    trial_id, start = cluster.trial.id, clock.now()
    await cluster.reports.progress(trial_id, 0.0)
    clock.advance(10)
    await cluster.reports.progress(trial_id, 0.25)
    end = start + timedelta(seconds=40)
    assert cluster.rm.notes == [AllocationHint(allocation_id=cluster.run.id, expected_end=end)]


@pytest.mark.slow
async def test_completed_checkpoints_of_the_current_run_are_told(
    life: Life, clock: ManualClock
) -> None:
    async with life() as cluster:
        await cluster.create(SINGLE)
        await run_one(cluster)
        await cluster.reports.checkpoint(checkpoint(cluster, "half", state="ACTIVE"))
        assert cluster.rm.notes == []
        await cluster.reports.checkpoint(checkpoint(cluster, "first"))
        clock.advance(60)
        await cluster.reports.checkpoint(checkpoint(cluster, "second"))
        notes = cluster.rm.notes
        assert [note.last_checkpoint for note in notes] == [
            clock.now() - timedelta(seconds=60),
            clock.now(),
        ]
        clock.advance(60)
        await cluster.reports.checkpoint(checkpoint(cluster, "third", state="ACTIVE"))
        assert len(notes) == 2
    async with life() as cluster:
        assert cluster.rm.notes == [notes[-1]], "after a restart the newest is told again"
        await cluster.exit(0)
    async with life() as cluster:
        assert cluster.rm.notes == []


@pytest.mark.slow
async def test_checkpoints_of_earlier_runs_say_nothing_of_this_one(
    life: Life, clock: ManualClock
) -> None:
    async with life() as cluster:
        await cluster.create(SINGLE.replace("max_restarts: 0", "max_restarts: 1"))
        await run_one(cluster)
        await cluster.reports.checkpoint(checkpoint(cluster, "first"))
        await cluster.exit(1)
        await run_one(cluster)
    async with life() as cluster:
        assert cluster.trial.run_id == 2
        assert cluster.rm.notes == []


@pytest.mark.slow
async def test_a_note_that_cannot_be_told_fails_no_report(
    cluster: ScriptedCluster, clock: ManualClock
) -> None:
    live = await cluster.create(SINGLE)
    await run_one(cluster)
    cluster.rm.deaf = True
    await cluster.reports.progress(cluster.trial.id, 0.1)
    clock.advance(10)
    await cluster.reports.progress(cluster.trial.id, 0.5)
    await cluster.reports.checkpoint(checkpoint(cluster, "first"))
    assert live.state.progress == 0.5
    assert cluster.trial.latest_checkpoint == "first"
    assert cluster.rm.notes == []
