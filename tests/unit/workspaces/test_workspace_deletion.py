"""Workspaces that hold much: a master that dies in the middle, and storage that fails. All of it goes in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select

from master.checkpoints.places import FolderHere
from master.checkpoints.workers import Deleter
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from tests.fakes.actors import ADMIN
from tests.fakes.api_world import SINGLE
from tests.fakes.inline_deleter import InlineDeleter
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.storage.worker import FolderResult, Order

LAB, FIRST = 2, 1_000
BROKEN = "c3"
TURNS = 500
"""Of the event loop that the collection has between two looks at the whole: each looks at all that is left."""


async def filled(cluster: ScriptedCluster, folder: Path, experiments: int) -> None:
    """The lab has this many experiments that are over, each with files and a command that ran beside it."""
    live = await cluster.create(SINGLE)
    store, now = cluster.store, cluster.clock.now()
    unit = UnitOfWork()
    unit.insert(tables.Workspace, {"id": LAB, "name": "lab", "user_id": 1})
    for project in (2, 3):
        named = {"name": f"p{project}", "key": f"P{project}", "description": "", "user_id": 1}
        unit.insert(tables.Project, {"id": project, "workspace_id": LAB, **named})
    over = {"created_at": now, "ended_at": now, "owner_id": 1}
    for number in range(experiments):
        id_, task, command = FIRST + number, f"t{number}", f"n{number}"
        one = {"id": id_, "job_id": f"j{number}", "project_id": 2 + number % 2, "name": "e"}
        config = {"config": live.config.to_json(), "labels": [], "model_files": []}
        unit.insert(tables.Experiment, {**one, **config, "state": "COMPLETED", **over})
        kind = {"type": "TRIAL", "job_id": f"j{number}", "experiment_id": id_}
        unit.insert(tables.Task, {"id": task, **kind, **over})
        unit.insert(tables.Task, {"id": command, "type": "COMMAND", "job_id": f"k{number}", **over})
        ran = {"type": "COMMAND", "job_id": f"k{number}", "workspace_id": LAB, "config": {}}
        unit.insert(tables.Command, {"id": command, **ran, "state": "TERMINATED", **over})
        saved = {"uuid": f"c{number}", "task_id": task, "experiment_id": id_, "reported_at": now}
        files = {"resources": {"weights": 1}, "meta": {}, "state": "COMPLETED"}
        unit.insert(tables.Checkpoint, {**saved, **files})
        (folder / f"c{number}").mkdir()
        (folder / f"c{number}" / "weights").write_text("w")
    await store.commit(unit)
    (folder / "stranger").mkdir()
    (folder / "stranger" / "weights").write_text("not ours")


def stored(folder: Path) -> list[str]:
    return [path.parent.name for path in folder.glob("*/weights")]


async def deleting(cluster: ScriptedCluster, is_over: Callable[[], Awaitable[bool]]) -> None:
    async def removals() -> None:
        while not await is_over():
            cluster.plane.removals.wake()
            await cluster.plane.removals.step()
            for _ in range(TURNS):
                await asyncio.sleep(0)

    collecting = asyncio.create_task(cluster.plane.collector.run())
    try:
        await removals()
    finally:
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)


async def state_of_lab(cluster: ScriptedCluster) -> tables.Workspace | None:
    workspace = tables.Workspace
    return await cluster.store.read_one(select(workspace).where(workspace.id == LAB))


async def left(cluster: ScriptedCluster) -> list[int]:
    """How many rows: all but those of the first workspace and its experiment."""
    counts = []
    for table, outside in (
        (tables.Workspace, 1),
        (tables.Project, 1),
        (tables.Experiment, 1),
        (tables.Task, 1),
        (tables.Command, 0),
        (tables.Checkpoint, 0),
        (tables.CheckpointGc, 0),
    ):
        number = await cluster.store.read_one(select(func.count()).select_from(table))
        counts.append((number or 0) - outside)
    return counts


@pytest.mark.slow
async def test_one_of_200_experiments_goes_whole_though_the_master_dies(tmp_path: Path) -> None:
    clock = ManualClock()
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await filled(cluster, tmp_path, 200)
    assert await cluster.plane.workspaces.delete(LAB, by=ADMIN) is False

    async def never() -> bool:
        return False

    async def is_gone() -> bool:
        return await state_of_lab(cluster) is None

    for commit in (97, 351):
        await cluster.cut_after(commit, deleting(cluster, never))
        await cluster.crash()
        cluster = await ScriptedCluster.start(tmp_path, clock)
        seen = await state_of_lab(cluster)
        assert seen is not None
        assert seen.state == "DELETING"
        assert any(await left(cluster))
    async with asyncio.timeout(60):
        await deleting(cluster, is_gone)
    assert await left(cluster) == [0] * 7
    assert stored(tmp_path) == ["stranger"]
    await cluster.crash()


class Fails(InlineDeleter):
    """For one checkpoint, until told."""

    broken = True

    async def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]:
        for folder in order.folders:
            if self.broken and folder == BROKEN:
                yield FolderResult(folder=folder, error="Input/output error")
                continue
            one = order.model_copy(update={"folders": (folder,)})
            async for result in super().delete(one, here):
                yield result


async def test_failing_storage_ends_it_with_the_cause_and_again_it_succeeds(
    tmp_path: Path,
) -> None:
    clock, deleter = ManualClock(), Fails()
    cluster = await start(tmp_path, clock, deleter)
    await filled(cluster, tmp_path, 6)
    await cluster.plane.workspaces.delete(LAB, by=ADMIN)

    async def has_failed() -> bool:
        clock.advance(60)
        cluster.plane.collector.wake()
        lab = await state_of_lab(cluster)
        return lab is not None and lab.state == "DELETE_FAILED"

    async with asyncio.timeout(60):
        await deleting(cluster, has_failed)
    lab = await state_of_lab(cluster)
    assert lab is not None
    broken = FIRST + int(BROKEN[1:])
    assert f"experiment {broken}" in lab.error
    assert "Input/output error" in lab.error
    deleter.broken = False
    assert await cluster.plane.workspaces.delete(LAB, by=ADMIN) is False

    async def is_gone() -> bool:
        return await state_of_lab(cluster) is None

    async with asyncio.timeout(60):
        await deleting(cluster, is_gone)
    assert await left(cluster) == [0] * 7
    assert stored(tmp_path) == ["stranger"]
    await cluster.crash()


async def start(folder: Path, clock: ManualClock, deleter: Deleter) -> ScriptedCluster:
    return await ScriptedCluster.start(folder, clock, deleter=deleter)
