"""Trials of a new experiment start from a checkpoint of an earlier one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from master.experiments.reports.service import CheckpointReport
from rm_backends.base import ContainerPhase
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidConfig

SEARCH = """
name: search
entrypoint: python3 train.py
searcher: {{name: random, metric: loss, max_trials: 2, max_concurrent_trials: 1{source}}}
hyperparameters: {{lr: {{type: double, minval: 0, maxval: 1}}}}
"""
SINGLE = """
name: first
entrypoint: python3 train.py
searcher: {name: single, metric: loss}
"""


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ScriptedCluster]:
    """Trial 1 is over; it left checkpoints after 3 and 5 steps, one of 9 that is deleted, and one in parts."""
    cluster = await ScriptedCluster.start(tmp_path, clock)
    live = await cluster.create(SINGLE)
    await cluster.grant()
    await cluster.report(ContainerPhase.RUNNING)
    for uuid, steps in (("three", 3), ("five", 5), ("nine", 9), ("parts", 10)):
        await cluster.reports.checkpoint(
            CheckpointReport(
                uuid=uuid,
                task_id=cluster.run.task_id,
                allocation_id=cluster.run.id,
                resources={"model": 10, "log": 1},
                metadata={"steps_completed": steps},
            )
        )
    await cluster.reports.patch_checkpoints({"nine": {}, "parts": {"log": 1}}, by=ADMIN)
    await cluster.exit(0)
    cluster.experiments.roots.forget(live)
    yield cluster
    await cluster.crash()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "checkpoint"),
    [
        (", source_trial_id: 1", "five"),
        (", source_checkpoint_uuid: three", "three"),
        (", source_trial_id: 1, source_checkpoint_uuid: three", "five"),
        ("", None),
    ],
)
async def test_every_trial_starts_from_the_source(
    cluster: ScriptedCluster, source: str, checkpoint: str | None
) -> None:
    live = await cluster.create(SEARCH.format(source=source))
    for _ in range(2):
        trial = list(live.state.trials.values())[-1]
        assert trial.warm_start_checkpoint == checkpoint
        await cluster.grant(of=trial.allocation)
        assert trial.allocation is not None
        environment = cluster.rm.specs[trial.allocation.id].environment
        assert environment.get("DET_LATEST_CHECKPOINT") == checkpoint
        assert environment["DET_STEPS_COMPLETED"] == "0"
        await cluster.report(ContainerPhase.RUNNING, of=trial.allocation)
        await cluster.exit(0, of=trial.allocation)
    assert len(live.state.trials) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (", source_trial_id: 7", "searcher.source_trial_id: trial 7 has no checkpoint"),
        (
            ", source_checkpoint_uuid: none",
            'searcher.source_checkpoint_uuid: there is no checkpoint "none"',
        ),
        (
            ", source_checkpoint_uuid: nine",
            "searcher.source_checkpoint_uuid: checkpoint nine is deleted",
        ),
        (
            ", source_checkpoint_uuid: parts",
            "searcher.source_checkpoint_uuid: checkpoint parts is partially deleted",
        ),
    ],
)
async def test_a_source_that_cannot_be_restored_is_refused(
    cluster: ScriptedCluster, source: str, says: str
) -> None:
    for create in (partial(cluster.experiments.check, by=ADMIN), cluster.create):
        with pytest.raises(InvalidConfig, match=says):
            await create(SEARCH.format(source=source))
    assert cluster.experiments.all_live() == ()
