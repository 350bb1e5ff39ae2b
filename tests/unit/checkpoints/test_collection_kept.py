"""What is left in storage after random trials and a crash: what a count of who is better says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from master.core.retention import KeepCounts, StoredCheckpoint
from master.experiments.reports.metrics import PostedMetrics
from master.experiments.reports.service import CheckpointReport
from master.store import tables
from rm_backends.base import ContainerPhase
from tests.examples import examples
from tests.fakes.retention_oracle import METRICS, oracle
from tests.fakes.scripted_cluster import ScriptedCluster
from tests.unit.checkpoints.test_collection_crash import collected, saved, there
from windlass.base.clock import ManualClock

TRIALS = 3
CONFIG = """
entrypoint: python3 train.py
searcher: {{name: random, metric: loss, max_trials: {trials}, smaller_is_better: {smaller}}}
hyperparameters: {{lr: {{type: double, minval: 0, maxval: 1}}}}
checkpoint_storage:
  save_experiment_best: {counts.experiment_best}
  save_trial_best: {counts.trial_best}
  save_trial_latest: {counts.trial_latest}
"""


class Saved(NamedTuple):
    trial: int
    metric: float | None
    """None: it was not validated."""


counted = st.builds(
    KeepCounts,
    experiment_best=st.integers(0, 3),
    trial_best=st.integers(0, 2),
    trial_latest=st.integers(0, 2),
)
histories = st.lists(st.builds(Saved, st.integers(0, TRIALS - 1), METRICS), max_size=8)


@settings(max_examples=examples(8))
@given(history=histories, counts=counted, smaller=st.booleans(), commit=st.integers(1, 9))
def test_what_is_left_after_a_crash_is_what_the_oracle_keeps(
    history: list[Saved], counts: KeepCounts, smaller: bool, commit: int
) -> None:
    found = [
        StoredCheckpoint(
            uuid=f"u{number}",
            trial_id=1 + at.trial,
            steps=number,
            metric=at.metric,
            validation_id=number,
            reported=float(number),
        )
        for number, at in enumerate(history)
    ]
    with TemporaryDirectory() as name:
        config = CONFIG.format(trials=TRIALS, smaller=str(smaller).lower(), counts=counts)
        asyncio.run(_live(Path(name), config, found, commit))
        assert there(Path(name)) == oracle(found, counts, smaller, set()) | {"stranger"}


async def _live(folder: Path, config: str, found: list[StoredCheckpoint], commit: int) -> None:
    saved(folder, *(candidate.uuid for candidate in found), "stranger")
    clock = ManualClock()
    cluster = await ScriptedCluster.start(folder, clock)
    await _train(cluster, config, found)
    await _collect_until(cluster, commit)
    await cluster.crash()
    cluster = await ScriptedCluster.start(folder, clock)
    await collected(cluster)
    await cluster.crash()


async def _train(cluster: ScriptedCluster, config: str, found: list[StoredCheckpoint]) -> None:
    live = await cluster.create(config)
    trials = [trial for _, trial in sorted(live.state.trials.items())]
    for trial in trials:
        await cluster.grant(of=trial.allocation)
        await cluster.report(ContainerPhase.RUNNING, of=trial.allocation)
    for candidate in found:
        trial = trials[candidate.trial_id - 1]
        if candidate.metric is not None:
            await cluster.reports.metrics(
                PostedMetrics(
                    trial_id=trial.id,
                    run_id=trial.run_id,
                    group="validation",
                    steps=candidate.steps,
                    avg={"loss": candidate.metric},
                    at=cluster.clock.now(),
                )
            )
        await cluster.reports.checkpoint(
            CheckpointReport(
                uuid=candidate.uuid,
                task_id=trial.task_id,
                resources={"weights": 1},
                metadata={"steps_completed": candidate.steps},
            )
        )
    for trial in trials:
        await cluster.exit(0, of=trial.allocation)
    assert live.state.ended_at is not None


async def _collect_until(cluster: ScriptedCluster, commit: int) -> None:
    """Nothing after that commit happens; there may be fewer."""
    cluster.store.commits, cluster.store.stop_after = 0, commit
    collecting = asyncio.create_task(cluster.plane.collector.run())
    gc = tables.CheckpointGc
    while not cluster.store.stopped.is_set() and await cluster.store.read(select(gc.task_id)):  # noqa: ASYNC110
        await asyncio.sleep(0)
    collecting.cancel()
    await asyncio.gather(collecting, return_exceptions=True)
