"""The deadline of a machine reaches the task: it is committed before it is told, and told everywhere."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from master.allocations.task_messages import lines
from rm_backends.base import ContainerPhase, ReleaseAsked
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock

CONFIG = """
name: one
entrypoint: python3 train.py
searcher: {name: single, metric: loss}
hyperparameters: {}
"""


async def test_the_deadline_of_a_release_is_kept_and_survives_a_crash(
    tmp_path: Path, clock: ManualClock
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    await cluster.create(CONFIG)
    await cluster.grant()
    await cluster.report(ContainerPhase.RUNNING)
    await cluster.allocations.mark_ready(cluster.run.id)
    before = cluster.run
    goes = clock.now() + timedelta(seconds=120)
    await cluster.allocations.handle(
        ReleaseAsked(allocation_id=cluster.run.id, reason="node-1 goes", deadline=goes)
    )
    asked = await cluster.allocations.preemption_signal(cluster.run.id, 0)
    assert asked is not None
    assert (asked.deadline, asked.reason) == (goes, "node-1 goes")
    (said,) = lines("trial 1", before, cluster.run)
    assert said[1] == (
        f"trial 1 was asked to checkpoint and stop by {goes:%Y-%m-%d %H:%M:%S} UTC: node-1 goes"
    )
    await cluster.crash()

    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        assert cluster.run.preempt_deadline == goes
        clock.advance(120)
        cluster.rm.take()
        await cluster.experiments.roots.tick()
        assert ("kill", cluster.run.id) in cluster.rm.take()
        assert cluster.run.kill_reason == "allocation did not preempt in 120s"
    finally:
        await cluster.crash()
