"""What tests of frameworks do with an experiment, and read of it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import MODELS, REPOSITORY

from tests.real_cluster import RealCluster, eventually

LAUNCHER = "python3 -m determined.launch.torch_distributed"
ON_TWO_NODES = {"resources": {"slots_per_trial": 2}}
BEGUN = 8
"""Batches after which there is a checkpoint and most is still to do: in the middle of the first epoch."""
PATIENCE_S = 240
"""A rank is the last of eight programs in a row, and PyTorch is large: a busy machine needs minutes."""
Reports = list[tuple[int, dict[str, Any]]]
PROGRAMS = ("determined.exec.harness", "slow.py")
"""One of them is in the command line of each rank."""


def final_metrics(cluster: RealCluster, experiment: int) -> dict[str, Any]:
    """Of the validation at the very end."""
    (trial,) = cluster.trials(experiment)
    rows = cluster.get(f"/api/v1/trials/{trial['id']}")["trial"]
    assert rows["latestValidation"]["totalBatches"] == 40
    return dict(rows["latestValidation"]["metrics"]["avgMetrics"])


def batches_done(cluster: RealCluster, experiment: int) -> int:
    (trial,) = cluster.trials(experiment) or [{}]
    return int(trial.get("totalBatchesProcessed", 0))


def begun(cluster: RealCluster, experiment: int) -> None:
    """Wait until it has, and fail if it ended instead."""

    def look() -> bool:
        state = cluster.experiment(experiment)["state"]
        assert state not in ("STATE_ERROR", "STATE_COMPLETED"), "".join(
            cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment)
        )
        return batches_done(cluster, experiment) >= BEGUN

    eventually("it has begun", look, patience_s=PATIENCE_S)


def completed(cluster: RealCluster, experiment: int) -> dict[str, Any]:
    """Its only trial, once it is over."""
    ended = cluster.wait(experiment, patience_s=PATIENCE_S)
    (trial,) = cluster.trials(experiment)
    assert ended["state"] == "STATE_COMPLETED", cluster.logs_of(trial["id"])
    return trial


def run(cluster: RealCluster, config: dict[str, Any], model: str) -> int:
    experiment = cluster.submit(config, MODELS / model)
    completed(cluster, experiment)
    return experiment


def preempted(cluster: RealCluster, config: dict[str, Any], model: str) -> dict[str, Any]:
    """The final metrics of a run that was paused in the middle of an epoch, and went on."""
    experiment = cluster.submit(config, MODELS / model)
    begun(cluster, experiment)
    cluster.client.act(experiment, "pause")
    eventually("it is paused", lambda: cluster.experiment(experiment)["state"] == "STATE_PAUSED")
    assert BEGUN <= batches_done(cluster, experiment) < 40
    cluster.client.act(experiment, "activate")
    trial = completed(cluster, experiment)
    assert trial["restarts"] == 0
    return final_metrics(cluster, experiment)


def reports(cluster: RealCluster, experiment: int, group: str) -> Reports:
    """All there are, each with its batches."""
    (trial,) = cluster.trials(experiment)
    query = {"trialIds": trial["id"], "group": group}
    key = "validation_metrics" if group == "validation" else "avg_metrics"
    parts = list(cluster.client.session.stream("/api/v1/trials/metrics/trial_metrics", query))
    return [(row["totalBatches"], row["metrics"][key]) for part in parts for row in part["metrics"]]


def assert_same_reports(
    cluster: RealCluster, experiment: int, quiet: int, *, partial: int = 0
) -> None:
    """None is missing, none is there twice, and each has the same numbers.

    `partial`: how many training reports may be means of fewer steps, as those after a resumption are.
    """
    for group in ("training", "validation"):
        expected = reports(cluster, quiet, group)
        found = reports(cluster, experiment, group)
        assert [steps for steps, _ in found] == [steps for steps, _ in expected]
        other = [
            (metrics, wanted)
            for (_, metrics), (_, wanted) in zip(found, expected, strict=True)
            if metrics != pytest.approx(wanted, rel=1e-3)
        ]
        assert len(other) <= (partial if group == "training" else 0), other


def with_our_callback(config: dict[str, Any], example: str, folder: Path) -> dict[str, Any]:
    """The configuration for the example with pauses, which is put into the folder, beside our package."""
    shutil.copytree(REPOSITORY / "examples" / example, folder, dirs_exist_ok=True)
    shutil.copy(MODELS / "slow.py", folder)
    ours = {"host_path": str(REPOSITORY / "windlass"), "container_path": "/mnt/ours/windlass"}
    variables = ["PYTHONPATH=/mnt/ours", "KERAS_BACKEND=torch"]
    known = config["environment"]["environment_variables"]
    return {
        **config,
        "entrypoint": f"{config['entrypoint'].rsplit(' ', 1)[0]} slow.py {example}",
        "bind_mounts": [*config["bind_mounts"], {**ours, "read_only": True}],
        "environment": {"environment_variables": [*known, *variables]},
    }


def ranks(node: str) -> list[psutil.Process]:
    """The training programs on a node, not their launchers."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            where = process.environ().get("DET_AGENT_ID")
            a_rank = not set(PROGRAMS).isdisjoint(words) and "RANK" in process.environ()
            if where == node and a_rank:
                found.append(process)
    return [
        process
        for process in found
        if not ({p.pid for p in found} & {c.pid for c in process.children()})
    ]


def kill_a_rank(cluster: RealCluster) -> None:
    """Of the agent called node-b."""
    for process in eventually("a rank runs", lambda: ranks("node-b")):
        process.kill()
