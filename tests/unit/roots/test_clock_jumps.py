"""A wall clock that is set by hours while the master runs: nothing ends early, waits longer, or took negative time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from master.experiments.lifecycle.deadlines import SILENT_AFTER
from master.experiments.lifecycle.state import Phase
from master.experiments.submission.creation import NewExperiment
from master.store.tables import Trial
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock

CONFIG = "searcher: {name: single, metric: loss}\ncheckpoint_storage: {type: directory, container_path: /x}\n"
JUMPS = pytest.mark.parametrize("hours", [5, -5])
SECOND = timedelta(seconds=1)


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    started = await ScriptedCluster.start(tmp_path, clock)
    yield started
    await started.crash()


async def unmanaged_trial(cluster: ScriptedCluster) -> int:
    unmanaged = cluster.experiments.unmanaged
    experiment = await unmanaged.put(NewExperiment(config=CONFIG), "ex", by=ADMIN)
    trial = await unmanaged.create_trial(experiment, {}, external_id="tr", by=ADMIN)
    await unmanaged.start(trial, resume=True, by=ADMIN)
    return trial


async def phase_after(cluster: ScriptedCluster, trial: int, later: timedelta) -> Phase:
    cluster.clock.advance(later.total_seconds())
    await cluster.experiments.roots.tick()
    live = await cluster.experiments.unmanaged.of_trial(trial)
    assert live is not None
    return live.state.phase


@JUMPS
async def test_the_process_of_an_unmanaged_trial_is_lost_when_it_was_silent_for_so_long(
    cluster: ScriptedCluster, hours: int
) -> None:
    trial = await unmanaged_trial(cluster)
    assert await phase_after(cluster, trial, timedelta(minutes=2)) is Phase.ACTIVE
    cluster.clock.jump(hours * 3600)
    assert await phase_after(cluster, trial, timedelta(0)) is Phase.ACTIVE
    assert await phase_after(cluster, trial, timedelta(minutes=3) - SECOND) is Phase.ACTIVE
    assert await phase_after(cluster, trial, SECOND) is Phase.ERROR
    row = await cluster.store.read_one(select(Trial).where(Trial.id == trial))
    assert row is not None
    assert row.ended_at is not None
    assert row.ended_at >= row.created_at


async def test_what_cannot_be_written_at_once_is_moved_later(cluster: ScriptedCluster) -> None:
    trial = await unmanaged_trial(cluster)
    cluster.clock.jump(5 * 3600)
    cluster.store.full = True
    assert await phase_after(cluster, trial, timedelta(0)) is Phase.ACTIVE
    cluster.store.full = False
    assert await phase_after(cluster, trial, SILENT_AFTER - SECOND) is Phase.ACTIVE
    assert await phase_after(cluster, trial, SECOND) is Phase.ERROR
