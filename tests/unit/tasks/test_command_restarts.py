"""What a restart of the master finds of commands, and does again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from command_cluster import exit_with, grant, launch, life, only, report, run_id, start

from master.core.jobs import SetPlace
from rm_backends.base import (
    ContainerPhase,
    Lost,
)
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock


async def test_a_restart_finds_every_command_where_it_was(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path, clock) as cluster:
        running, waiting = await start(cluster), await launch(cluster)
        await waiting.change_job(SetPlace(Decimal("0.125"), 7), by=ADMIN)
        over = await start(cluster)
        await exit_with(cluster, over, 0)
        before = {live.state.id: live.state for live in (running, waiting)}
    async with life(tmp_path, clock) as cluster:
        after = {live.state.id: live.state for live in cluster.commands.roots.job_roots()}
        assert after == before
        records = {record.request.task_id: record for record in cluster.rm.records}
        assert set(records) == set(before)
        assert records[running.state.id].started
        assert not records[waiting.state.id].containers
        job = records[waiting.state.id].request.job
        assert (job.position, job.priority) == (Decimal("0.125"), 7)
        assert cluster.rm.take() == [], "what runs goes on, what waits is queued by its record"
        again = cluster.commands.live(running.state.id)
        assert again is not None
        assert cluster.allocations.owner_of(cluster.mint.hash(run_id(again))) is not None
        await exit_with(cluster, again, 0)
        assert again.state.exit_status == "success"


async def test_a_restart_starts_what_was_granted_and_kills_what_was_to_be_killed(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path, clock) as cluster:
        granted, killed = await launch(cluster), await start(cluster)
        await grant(cluster, granted)
        await cluster.commands.kill(killed.state.id, by=replace(ADMIN, name="eve"))
    async with life(tmp_path, clock) as cluster:
        assert sorted(cluster.rm.take()) == [
            ("kill", run_id(killed)),
            ("start", run_id(granted)),
        ]
        again = cluster.commands.live(killed.state.id)
        assert again is not None
        await exit_with(cluster, again, 137)
        assert again.state.exit_status == "killed by eve"


async def test_a_restart_ends_the_pause_of_what_could_not_be_started(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with life(tmp_path, clock) as cluster:
        live = await launch(cluster)
        await grant(cluster, live)
        await cluster.allocations.handle(Lost(allocation_id=run_id(live), reason="gone"))
    async with life(tmp_path, clock) as cluster:
        assert cluster.rm.take() == [("request", f"{live.state.id}.2")]
        assert only(cluster).owner_name == "admin"


@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_a_crash_after_any_commit_loses_nothing(
    tmp_path: Path, clock: ManualClock, commit: int
) -> None:
    """From the launch to the first report: the next master finishes what the first one wrote."""

    async def life_of_one(cluster: ScriptedCluster) -> None:
        await start(cluster)

    async with life(tmp_path, clock) as cluster:
        await cluster.cut_after(commit, life_of_one(cluster))
    async with life(tmp_path, clock) as cluster:
        live = only(cluster)
        (record,) = cluster.rm.records
        assert record.request.allocation_id == run_id(live)
        if not record.containers:
            await grant(cluster, live)
        if not record.started:
            assert ("start", run_id(live)) in cluster.rm.take()
            await report(cluster, live, ContainerPhase.RUNNING)
        await exit_with(cluster, live, 0)
        assert live.state.exit_status == "success"
