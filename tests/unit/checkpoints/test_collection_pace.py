"""How many collections go on at once, and when one that failed is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from master.checkpoints import collector
from master.checkpoints.places import FolderHere
from master.store import tables
from tests.fakes.inline_deleter import InlineDeleter
from tests.fakes.scripted_cluster import ScriptedCluster
from tests.unit.checkpoints.test_collection_crash import UUIDS, ended, saved, there
from windlass.base.clock import ManualClock
from windlass.storage.worker import FolderResult, Order

OTHERS = [f"other-{n}" for n in range(3)]


@asynccontextmanager
async def collecting(cluster: ScriptedCluster) -> AsyncIterator[None]:
    task = asyncio.create_task(cluster.plane.collector.run())
    try:
        async with asyncio.timeout(90):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.crash()


async def attempts(cluster: ScriptedCluster) -> list[int]:
    """Of each row that is left."""
    gc = tables.CheckpointGc
    return await cluster.store.read(select(gc.attempts).order_by(gc.task_id))


async def test_those_that_wait_for_an_agent_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that the master does not see are an agent's to delete; none ever comes."""
    monkeypatch.setattr(collector, "UNDER_WAY", 1)
    cluster = await ScriptedCluster.start(tmp_path, ManualClock())
    async with collecting(cluster):
        for number in range(2):
            await ended(cluster, [f"{uuid}-{number}" for uuid in UUIDS])
            cluster.rm.take()
            await cluster.rm.until("request")
        saved(tmp_path, *OTHERS)
        await ended(cluster, OTHERS)
        while there(tmp_path) != {OTHERS[-1]}:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        while await attempts(cluster) != [0, 0]:  # noqa: ASYNC110
            await asyncio.sleep(0)


class Fails(InlineDeleter):
    """For these checkpoints, until told."""

    failing = frozenset(UUIDS)

    async def delete(
        self, order: Order, here: FolderHere | None
    ) -> AsyncGenerator[FolderResult, None]:
        if self.failing.isdisjoint(order.folders):
            async for result in super().delete(order, here):
                yield result
            return
        for folder in order.folders:
            yield FolderResult(folder=folder, error="Input/output error")


async def test_what_failed_is_tried_again_after_the_pause_it_told(tmp_path: Path) -> None:
    clock, deleter = ManualClock(), Fails()
    saved(tmp_path, *UUIDS, *OTHERS)
    cluster = await ScriptedCluster.start(tmp_path, clock, deleter=deleter)
    async with collecting(cluster):
        await ended(cluster)
        while await attempts(cluster) != [1]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await ended(cluster, OTHERS)
        while OTHERS[0] in there(tmp_path):  # noqa: ASYNC110
            await asyncio.sleep(0)
        while len(left := await attempts(cluster)) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert left == [1], "it was looked at again, and not tried"
        deleter.failing = frozenset()
        clock.advance(11)
        cluster.plane.collector.wake()
        while await attempts(cluster):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert there(tmp_path) == {UUIDS[-1], OTHERS[-1]}
