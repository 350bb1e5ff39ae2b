"""Our callbacks in a gang over two agents: each rank is on another node. A quiet run is the measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import config_of
from runs import (
    LAUNCHER,
    ON_TWO_NODES,
    assert_same_reports,
    batches_done,
    begun,
    completed,
    kill_a_rank,
    reports,
    with_our_callback,
)

from tests.real_cluster import RealCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BATCHES = 40
SEVERAL = {
    "huggingface": {"report_to=[]": "report_to=[], use_cpu=True"},
    "lightning": {
        "max_steps=40": 'max_steps=40, accelerator="cpu", num_nodes=2, devices=1, strategy="ddp"'
    },
}
"""Example -> what it says for a single process -> for several."""
RANKS = "core.init(distributed=core.DistributedContext.from_torch_distributed())"


@dataclass(frozen=True)
class Program:
    config: dict[str, Any]
    model: Path


@pytest.fixture(scope="module", params=SEVERAL)
def program(
    request: pytest.FixtureRequest, torch_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Program:
    model = tmp_path_factory.mktemp("model")
    metric = "eval_loss" if request.param == "huggingface" else "val_loss"
    config = config_of(
        torch_python,
        f"{LAUNCHER} python3 train.py",
        searcher={"name": "single", "metric": metric},
        max_restarts=2,
        **ON_TWO_NODES,
    )
    config = with_our_callback(config, request.param, model)
    text = (model / "train.py").read_text(encoding="utf-8")
    for alone, several in {**SEVERAL[request.param], "core.init()": RANKS}.items():
        assert alone in text
        text = text.replace(alone, several)
    (model / "train.py").write_text(text, encoding="utf-8")
    return Program(config, model)


@pytest.fixture(scope="module")
def quiet(cluster: RealCluster, program: Program) -> int:
    experiment = cluster.submit(program.config, program.model)
    completed(cluster, experiment)
    return experiment


def test_the_chief_reports_for_both(cluster: RealCluster, program: Program, quiet: int) -> None:
    seen = [step for step, _ in reports(cluster, quiet, "training")]
    assert seen == [*range(4, BATCHES + 1, 4)]
    step, metrics = reports(cluster, quiet, "validation")[-1]
    assert step == BATCHES
    assert metrics[program.config["searcher"]["metric"]] < 1.0


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
    assert_same_reports(cluster, experiment, quiet, partial=1)


def test_a_rank_is_killed_and_the_gang_goes_on_from_its_checkpoint(
    cluster: RealCluster, program: Program, quiet: int
) -> None:
    experiment = cluster.submit(program.config, program.model)
    begun(cluster, experiment)
    kill_a_rank(cluster)
    trial = completed(cluster, experiment)
    assert trial["restarts"] == 1
    assert_same_reports(cluster, experiment, quiet)
