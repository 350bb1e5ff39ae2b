"""Unmanaged experiments: what heartbeats and their absence make of them, also over restarts of the master."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from master.experiments.lifecycle.deadlines import SILENT_AFTER
from master.experiments.lifecycle.state import Phase
from master.experiments.restoring import HEARD_AGAIN
from master.experiments.submission.creation import NewExperiment
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidArgument, NotFound

CONFIG = "searcher: {name: single, metric: loss}\ncheckpoint_storage: {type: directory, container_path: /x}\n"
SECOND = timedelta(seconds=1)


async def started(cluster: ScriptedCluster) -> int:
    """The trial of the experiment "ex"; it runs."""
    unmanaged = cluster.experiments.unmanaged
    experiment = await unmanaged.put(NewExperiment(config=CONFIG), "ex", by=ADMIN)
    trial = await unmanaged.create_trial(experiment, {}, external_id="tr", by=ADMIN)
    await unmanaged.start(trial, resume=True, by=ADMIN)
    return trial


async def phase_after(cluster: ScriptedCluster, clock: ManualClock, later: timedelta) -> Phase:
    clock.advance(later.total_seconds())
    await cluster.experiments.roots.tick()
    live = await cluster.experiments.unmanaged.of_trial(1)
    assert live is not None
    return live.state.phase


@pytest.mark.parametrize("away", [timedelta(minutes=1), timedelta(minutes=9)])
async def test_a_restart_of_the_master_keeps_deadlines(tmp_path: Path, away: timedelta) -> None:
    """At the latest when a process could not reach the master for a while, it has a little time to do so."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    first = await ScriptedCluster.start(tmp_path, clock)
    assert await started(first) == 1
    await first.crash()
    clock.advance(away.total_seconds())
    second = await ScriptedCluster.start(tmp_path, clock)
    left = max(SILENT_AFTER - away, HEARD_AGAIN)
    assert await phase_after(second, clock, left - SECOND) is Phase.ACTIVE
    assert await phase_after(second, clock, SECOND) is Phase.ERROR
    await second.crash()


async def test_one_that_was_lost_goes_on_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    first = await ScriptedCluster.start(tmp_path, clock)
    trial = await started(first)
    assert await phase_after(first, clock, SILENT_AFTER) is Phase.ERROR
    await first.crash()
    second = await ScriptedCluster.start(tmp_path, clock)
    unmanaged = second.experiments.unmanaged
    assert second.experiments.live_of_trial(trial) is None
    await unmanaged.heard(trial, None)
    live = second.experiments.live_of_trial(trial)
    assert live is not None
    assert (live.state.phase, live.state.ended_at, live.state.error) == (Phase.ACTIVE, None, "")
    again = await unmanaged.start(trial, resume=True, by=ADMIN)
    assert again.run_id == 2
    await second.crash()


async def test_it_asks_the_scheduler_for_nothing(tmp_path: Path) -> None:
    """Nor does settling after a restart, and no search is asked what to do next."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    cluster = await ScriptedCluster.start(tmp_path, clock)
    trial = await started(cluster)
    live = cluster.experiments.live_of_trial(trial)
    assert live is not None
    await live.settle()
    await cluster.experiments.unmanaged.heard(trial, Phase.COMPLETED)
    assert cluster.rm.take() == []
    assert live.state.searcher_seq == 0
    assert live.state.phase is Phase.COMPLETED
    assert list(live.open_allocations()) == []
    assert cluster.experiments.roots.job_root(live.job_id) is None
    await cluster.crash()


async def test_trials_that_are_managed_or_unknown_are_told_apart(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    cluster = await ScriptedCluster.start(tmp_path, clock)
    with pytest.raises(NotFound):
        await cluster.experiments.unmanaged.heard(7, None)
    await started(cluster)
    live = cluster.experiments.live_of_trial(1)
    assert live is not None
    live.state = replace(live.state, unmanaged=False)
    with pytest.raises(InvalidArgument, match="managed"):
        await cluster.experiments.unmanaged.heard(1, None)
    await cluster.crash()
