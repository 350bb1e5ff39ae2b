"""A master that dies in the middle of a collection, after each of its commits: the next one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from master.checkpoints.places import FolderHere
from master.experiments.reports.service import CheckpointReport
from master.store import tables
from rm_backends.base import ContainerPhase
from tests.fakes.actors import ADMIN
from tests.fakes.api_world import SINGLE
from tests.fakes.inline_deleter import InlineDeleter
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.storage.worker import FolderResult, Order

UUIDS = [f"checkpoint-{n}" for n in range(5)]
KEPT = {UUIDS[-1], "stranger"}


def saved(folder: Path, *uuids: str) -> None:
    for uuid in uuids:
        (folder / uuid).mkdir()
        (folder / uuid / "weights").write_text("w")


def there(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/weights")}


async def ended(cluster: ScriptedCluster, uuids: Sequence[str] = UUIDS) -> None:
    """An experiment that ends with these checkpoints, of which the last is kept."""
    live = await cluster.create(SINGLE)
    (trial,) = live.state.trials.values()
    run = trial.allocation
    assert run is not None
    await cluster.grant(of=run)
    await cluster.report(ContainerPhase.RUNNING, of=run)
    for steps, uuid in enumerate(uuids):
        await cluster.reports.checkpoint(
            CheckpointReport(
                uuid=uuid,
                task_id=trial.task_id,
                resources={"weights": 1},
                metadata={"steps_completed": steps},
            )
        )
    await cluster.exit(0, of=run)
    assert live.state.ended_at is not None


async def collected(cluster: ScriptedCluster) -> None:
    collecting = asyncio.create_task(cluster.plane.collector.run())
    gc = tables.CheckpointGc
    while await cluster.store.read(select(gc.task_id)):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)
    collecting.cancel()
    await asyncio.gather(collecting, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("commit", range(1, 8))
async def test_it_goes_on_after_a_crash(tmp_path: Path, commit: int) -> None:
    """Commits: task, seen, one for each of the four that go, and the end."""
    saved(tmp_path, *UUIDS, "stranger")
    clock = ManualClock()
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await ended(cluster)
    assert there(tmp_path) == {*UUIDS, "stranger"}, "written down before anything is deleted"
    await cluster.cut_after(commit, cluster.plane.collector.run())
    await cluster.crash()
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await collected(cluster)
    assert there(tmp_path) == KEPT
    checkpoint = tables.Checkpoint
    rows = await cluster.store.read(select(checkpoint))
    assert {row.uuid for row in rows if row.state != "DELETED"} == {UUIDS[-1]}
    tasks = await cluster.store.read(select(tables.Task).where(tables.Task.type != "TRIAL"))
    assert [task.ended_at is not None for task in tasks] == [True]
    await cluster.crash()


@pytest.mark.slow
@pytest.mark.parametrize("commit", range(1, 8))
async def test_a_trial_whose_deletion_has_begun_goes(tmp_path: Path, commit: int) -> None:
    """Also what its end has left to collect: which of the two comes first does not matter."""
    saved(tmp_path, *UUIDS[:2], "stranger")
    clock = ManualClock()
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await ended(cluster, UUIDS[:2])
    await cluster.plane.checkpoints.delete_trial(1, by=ADMIN)
    await cluster.cut_after(commit, cluster.plane.collector.run())
    await cluster.crash()
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await collected(cluster)
    assert there(tmp_path) == {"stranger"}
    for table in (tables.Trial, tables.Metric, tables.Checkpoint):
        assert await cluster.store.read(select(table)) == []
    (task,) = await cluster.store.read(select(tables.Task).where(tables.Task.ended_at.is_not(None)))
    assert (task.type, task.experiment_id) == ("CHECKPOINT_GC", 1)
    (experiment,) = await cluster.store.read(select(tables.Experiment))
    assert experiment.state == "COMPLETED"
    await cluster.crash()


class DiesBetween(InlineDeleter):
    """Deletes, and never gets to say so."""

    async def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]:
        async for _ in super().delete(order, here):
            pass
        await asyncio.Event().wait()
        yield FolderResult(folder="")


async def test_what_was_deleted_and_not_said_is_deleted(tmp_path: Path) -> None:
    """All files are gone: the next master has no other sign that this is the storage."""
    saved(tmp_path, *UUIDS, "stranger")
    clock = ManualClock()
    cluster = await ScriptedCluster.start(tmp_path, clock, deleter=DiesBetween())
    await ended(cluster)
    collecting = asyncio.create_task(cluster.plane.collector.run())
    while there(tmp_path) != KEPT:  # noqa: ASYNC110
        await asyncio.sleep(0)
    collecting.cancel()
    await asyncio.gather(collecting, return_exceptions=True)
    await cluster.crash()
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await collected(cluster)
    checkpoint = tables.Checkpoint
    rows = await cluster.store.read(select(checkpoint))
    assert {row.uuid for row in rows if row.state != "DELETED"} == {UUIDS[-1]}
    await cluster.crash()


class TakesLongToEnd(InlineDeleter):
    """As a worker process does that is killed and waited for."""

    running = 0

    async def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]:
        self.running += 1
        try:
            async for result in super().delete(order, here):
                yield result
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            self.running -= 1


async def test_no_worker_outlives_its_collection(tmp_path: Path) -> None:
    saved(tmp_path, *UUIDS, "stranger")
    deleter = TakesLongToEnd()
    cluster = await ScriptedCluster.start(tmp_path, ManualClock(), deleter=deleter)
    await ended(cluster)
    await cluster.cut_after(3, cluster.plane.collector.run())
    assert deleter.orders, "it had begun"
    assert deleter.running == 0
    await cluster.crash()
