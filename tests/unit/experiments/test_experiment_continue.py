"""Continuing is one commit: a master that dies at any moment has either not begun it, or goes on with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from master.allocations.machine import AllocationState
from master.experiments.lifecycle.state import Phase
from master.experiments.reports.metrics import PostedMetrics
from master.experiments.reports.service import CheckpointReport
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from rm_backends.base import ContainerPhase
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidState, StoreUnavailable

SINGLE = """
name: first
entrypoint: python3 train.py
searcher: {name: single, metric: loss}
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}
"""
CHANGED = "hyperparameters: {depth: 3}\nreproducibility: {experiment_seed: 77}\n"


async def trained(folder: Path, clock: ManualClock) -> ScriptedCluster:
    """Experiment 1 has completed; it left a checkpoint after 4 steps, and reports after 2, 4 and 6."""
    cluster = await ScriptedCluster.start(folder, clock)
    await cluster.create(SINGLE)
    await cluster.grant()
    await cluster.report(ContainerPhase.RUNNING)
    report = CheckpointReport(
        uuid="four",
        task_id=cluster.run.task_id,
        allocation_id=cluster.run.id,
        resources={"model": 10},
        metadata={"steps_completed": 4},
    )
    for steps in (2, 4, 6):
        posted = PostedMetrics(
            trial_id=1, run_id=1, group="training", steps=steps, avg={"loss": steps}, at=clock.now()
        )
        await cluster.reports.metrics(posted)
    await cluster.reports.checkpoint(report)
    await cluster.exit(0)
    clock.advance(1)
    return cluster


async def live_steps(cluster: ScriptedCluster) -> list[int | None]:
    """Of the reports that were not rolled back."""
    metric = tables.Metric
    return await cluster.store.read(
        select(metric.steps).where(metric.archived.is_(False)).order_by(metric.steps)
    )


@pytest.fixture
async def ended(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    cluster = await trained(tmp_path, clock)
    yield cluster
    await cluster.crash()


async def test_a_master_that_dies_after_the_commit_goes_on_with_it(
    tmp_path: Path, clock: ManualClock
) -> None:
    cluster = await trained(tmp_path, clock)
    hparams, request_id = cluster.trial.hparams, cluster.trial.request_id
    await cluster.cut_after(1, cluster.experiments.continue_(1, CHANGED, by=ADMIN))
    assert f"1.{request_id}-1.2" not in {of for _, of in cluster.rm.take()}
    await cluster.crash()
    cluster = await ScriptedCluster.start(tmp_path, clock)
    trial = cluster.trial
    assert cluster.only.state.phase is Phase.ACTIVE
    assert (trial.run_id, trial.latest_checkpoint) == (2, "four")
    assert trial.hparams.keys() == {*hparams, "depth"}
    assert await live_steps(cluster) == [2, 4]
    assert trial.metrics.steps_completed == 4
    assert trial.metrics.summary["avg_metrics"]["loss"]["count"] == 2
    assert [record.request.allocation_id for record in cluster.rm.records] == [cluster.run.id]
    assert cluster.run.task_id == f"1.{trial.request_id}-1"
    await cluster.grant()
    await cluster.report(ContainerPhase.RUNNING)
    assert cluster.rm.specs[cluster.run.id].allocation_id == cluster.run.id
    await cluster.exit(0)
    assert cluster.only.state.phase is Phase.COMPLETED
    await cluster.crash()


async def test_what_is_not_committed_has_not_begun(ended: ScriptedCluster) -> None:
    ended.store.full = True
    with pytest.raises(StoreUnavailable):
        await ended.experiments.continue_(1, by=ADMIN)
    ended.store.full = False
    assert ended.experiments.live(1) is None
    assert await live_steps(ended) == [2, 4, 6]
    tasks = await ended.store.read(select(tables.Task.id))
    assert len(tasks) == 1
    await ended.experiments.continue_(1, by=ADMIN)
    assert ended.trial.latest_checkpoint == "four"


async def test_a_deletion_that_was_faster_wins(ended: ScriptedCluster) -> None:
    uow = UnitOfWork()
    uow.update(tables.Experiment, {"id": 1}, {"state": "DELETING"})
    read, deleted = ended.store.read, False

    async def delete_meanwhile(*args: object, **options: object) -> object:
        nonlocal deleted
        rows = await read(*args, **options)  # type: ignore[arg-type, call-overload]
        if not deleted and "FROM checkpoint" in str(args[0]):
            deleted = True
            await ended.store.commit(uow)
        return rows

    ended.store.read = delete_meanwhile  # type: ignore[method-assign, assignment]
    with pytest.raises(InvalidState, match="in non terminal state 'DELETING'"):
        await ended.experiments.continue_(1, by=ADMIN)
    assert deleted
    assert ended.experiments.live(1) is None


async def test_twice_at_once_continues_once(ended: ScriptedCluster) -> None:
    await ended.experiments.continue_(1, by=ADMIN)
    with pytest.raises(InvalidState, match="non terminal state 'ACTIVE'"):
        await ended.experiments.continue_(1, by=ADMIN)
    assert ended.trial.run_id == 2


async def test_a_deleted_checkpoint_is_not_gone_on_from(ended: ScriptedCluster) -> None:
    await ended.reports.patch_checkpoints({"four": {}}, by=ADMIN)
    await ended.experiments.continue_(1, by=ADMIN)
    assert (ended.trial.latest_checkpoint, ended.trial.latest_checkpoint_steps) == (None, 0)


SEARCH = """
name: search
entrypoint: python3 train.py
searcher: {name: random, metric: loss, max_trials: 8, max_concurrent_trials: 2}
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}
"""


def running(cluster: ScriptedCluster) -> list[AllocationState]:
    """The runs of a search that are asked for or there, in the order of its trials; none once it has ended."""
    trials = [t for live in cluster.experiments.all_live() for t in live.state.trials.values()]
    return [trial.open_allocation for trial in trials if trial.open_allocation is not None]


async def states(cluster: ScriptedCluster) -> list[str]:
    return list(await cluster.store.read(select(tables.Trial.state).order_by(tables.Trial.id)))


async def finish(cluster: ScriptedCluster, run: AllocationState) -> None:
    if run.id not in cluster.rm.granted:
        await cluster.grant(of=run)
        await cluster.report(ContainerPhase.RUNNING, of=run)
    await cluster.exit(0, of=run)


@pytest.mark.parametrize("dies_after", range(9))
async def test_a_search_with_two_of_eight_trials_done_goes_on_though_its_master_dies(
    tmp_path: Path, clock: ManualClock, dies_after: int
) -> None:
    """After so many of the runs that are left or that are made again have been finished."""
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await cluster.create(SEARCH)
    for run in running(cluster):
        await finish(cluster, run)
    cancelled = running(cluster)
    await cluster.experiments.cancel(1, by=ADMIN)
    for run in cancelled:
        await finish(cluster, run)
    assert await states(cluster) == ["COMPLETED", "COMPLETED", "CANCELED", "CANCELED"]
    clock.advance(1)
    await cluster.experiments.continue_(1, by=ADMIN)
    for finished in range(9):
        if finished == dies_after:
            await cluster.crash()
            cluster = await ScriptedCluster.start(tmp_path, clock)
        if left := running(cluster):
            await finish(cluster, left[0])
    assert await states(cluster) == ["COMPLETED"] * 8
    await cluster.crash()


async def test_no_more_trials_go_on_at_once_than_a_search_may_have(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Four failed, two were cancelled; two may run at a time."""
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await cluster.create(SEARCH + "max_restarts: 0\n")
    for _ in range(4):
        run = running(cluster)[0]
        await cluster.grant(of=run)
        await cluster.report(ContainerPhase.RUNNING, of=run)
        await cluster.exit(1, of=run)
    await cluster.experiments.kill(1, by=ADMIN)
    for run in running(cluster):
        await cluster.exit(137, of=run)
    assert await states(cluster) == ["ERROR"] * 4 + ["CANCELED"] * 2
    clock.advance(1)
    await cluster.experiments.continue_(1, by=ADMIN)
    for ended in range(8):
        now = running(cluster)
        assert len(now) == min(2, 8 - ended)
        reasons = cluster.experiments.waiting_reasons(cluster.only.state.trials.values())
        waiting = [one for one in reasons.values() if "max_concurrent_trials" in one.text]
        assert len(waiting) == max(0, len(await unended(cluster)) - 2)
        if ended == 3:
            await cluster.crash()
            cluster = await ScriptedCluster.start(tmp_path, clock)
            assert [run.id for run in running(cluster)] == [run.id for run in now]
        await finish(cluster, running(cluster)[0])
    assert await states(cluster) == ["COMPLETED"] * 8
    await cluster.crash()


async def unended(cluster: ScriptedCluster) -> list[str]:
    return [state for state in await states(cluster) if state == "ACTIVE"]
