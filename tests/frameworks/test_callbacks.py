"""Hugging Face, Lightning and Keras with our callbacks and the published ones. A quiet run is the measure."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import MODELS, config_of
from runs import (
    assert_same_reports,
    batches_done,
    begun,
    completed,
    reports,
    with_our_callback,
)

from tests.jails import open_way_to
from tests.real_cluster import RealCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
AWAY_S = 30
"""How long the master is gone in the middle of training."""
BATCHES = 40


@dataclass(frozen=True)
class Framework:
    name: str
    """Its folder in models/."""
    module: str
    """What its program imports of the published package."""
    metric: str = "val_loss"
    python: str = "torch_python"
    """The fixture with its interpreter."""
    ours: bool = False
    """Its program is the example of that name, with the callback of windlass.core."""

    @property
    def title(self) -> str:
        return f"our-{self.name}" if self.ours else self.name


FRAMEWORKS = (
    Framework("huggingface", "transformers", metric="eval_loss", ours=True),
    Framework("lightning", "lightning", ours=True),
    Framework("keras", "keras", ours=True),
    Framework("huggingface", "determined.transformers", metric="eval_loss"),
    Framework("lightning", "determined.lightning.experimental"),
    Framework("keras", "determined.keras", metric="loss", python="tensorflow_python"),
)


@dataclass(frozen=True)
class Program:
    """What to submit, and where its files end up."""

    config: dict[str, Any]
    model: Path
    storage: Path
    ours: bool = False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """One agent with a slot, which waits for its master longer than that is gone."""
    config = {"resource_pools": [{"pool_name": "default", "agent_reconnect_wait": "120s"}]}
    with RealCluster(tmp_path_factory.mktemp("callbacks"), config) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


@pytest.fixture(scope="module", params=FRAMEWORKS, ids=lambda framework: framework.title)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    framework: Framework = request.param
    python: Path = request.getfixturevalue(framework.python)
    probe = [str(python), "-c", f"import {framework.module}"]
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    if subprocess.run(probe, check=False, capture_output=True, env=environment).returncode:
        pytest.skip(f"{python} cannot import {framework.module}")
    storage = open_way_to(tmp_path_factory.mktemp(framework.name) / "storage")
    storage.mkdir()
    storage.chmod(0o777)  # trials run as somebody else
    config = config_of(
        python,
        "python3 train.py",
        searcher={
            "name": "single",
            "metric": framework.metric,
            "max_length": {"batches": BATCHES},
        },
        checkpoint_storage={"type": "shared_fs", "host_path": str(storage)},
    )
    model = MODELS / framework.name
    if framework.ours:
        model = tmp_path_factory.mktemp("model")
        config = with_our_callback(config, framework.name, model)
    return Program(config, model, storage, framework.ours)


@pytest.fixture(scope="module")
def quiet(cluster: RealCluster, program: Program) -> int:
    """The experiment of a run that nobody interrupts."""
    experiment = cluster.submit(program.config, program.model)
    completed(cluster, experiment)
    return experiment


def test_it_learns_and_reports(cluster: RealCluster, program: Program, quiet: int) -> None:
    trained = reports(cluster, quiet, "training")
    steps, metrics = reports(cluster, quiet, "validation")[-1]
    assert steps == BATCHES
    assert metrics[program.config["searcher"]["metric"]] < trained[0][1]["loss"]
    seen = [steps for steps, _ in trained]
    assert len(set(seen)) == len(seen) >= BATCHES // 4


def test_its_tensorboard_files_are_in_storage(
    cluster: RealCluster, program: Program, quiet: int
) -> None:
    if program.ours:
        pytest.skip("windlass.core writes no TensorBoard files: the master has the metrics")
    (trial,) = cluster.trials(quiet)
    of_cluster = program.storage / str(cluster.get("/api/v1/master")["clusterId"])
    folder = of_cluster / f"tensorboard/experiment/{quiet}/trial/{trial['id']}"
    written = [file.read_bytes() for file in folder.rglob("*tfevents*")]
    assert any(b"Determined/" in content for content in written)


def test_paused_and_resumed_it_reports_as_a_quiet_run(
    cluster: RealCluster, program: Program, quiet: int
) -> None:
    experiment = cluster.submit(program.config, program.model)
    begun(cluster, experiment)
    cluster.client.act(experiment, "pause")
    eventually("it is paused", lambda: cluster.experiment(experiment)["state"] == "STATE_PAUSED")
    assert batches_done(cluster, experiment) < BATCHES
    cluster.client.act(experiment, "activate")
    trial = completed(cluster, experiment)
    assert trial["restarts"] == 0
    assert_same_reports(cluster, experiment, quiet, partial=int(program.ours))


def test_a_master_that_was_away_lost_and_doubled_nothing(
    cluster: RealCluster, program: Program, quiet: int
) -> None:
    experiment = cluster.submit(program.config, program.model)
    begun(cluster, experiment)
    assert batches_done(cluster, experiment) < BATCHES
    cluster.kill_master()
    time.sleep(AWAY_S)
    cluster.start_master()
    trial = completed(cluster, experiment)
    assert trial["restarts"] == 0
    assert_same_reports(cluster, experiment, quiet)
