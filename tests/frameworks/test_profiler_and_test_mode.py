"""A Trial class with `profiling`, and with `det experiment create --test`, at the cluster and without one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import MODELS, config_of
from runs import PATIENCE_S, completed

from tests.jails import open_way_to
from tests.real_cluster import RealCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SYSTEM_GROUPS = ("cpu", "memory", "disk", "network")


def test_measurements_are_reported_and_the_trace_is_in_storage(
    cluster: RealCluster, torch_python: Path, tmp_path: Path
) -> None:
    storage = open_way_to(tmp_path / "storage")
    storage.mkdir()
    storage.chmod(0o777)  # trials run as somebody else
    config = config_of(
        torch_python,
        "traced:TracedTrial",
        profiling={"enabled": True},
        checkpoint_storage={"type": "shared_fs", "host_path": str(storage)},
    )
    experiment = cluster.submit(config, MODELS / "digits")
    trial = completed(cluster, experiment)
    for group in SYSTEM_GROUPS:
        query = {"trialIds": trial["id"], "group": group}
        parts = list(cluster.client.session.stream("/api/v1/trials/metrics/trial_metrics", query))
        rows = [row for part in parts for row in part["metrics"]]
        assert rows, group
        assert {agent for row in rows for agent in row["metrics"]["avg_metrics"]} <= {
            "node-a",
            "node-b",
        }
    of_cluster = storage / str(cluster.get("/api/v1/master")["clusterId"])
    folder = of_cluster / f"tensorboard/experiment/{experiment}/trial/{trial['id']}"
    traces = [file.read_bytes() for file in folder.rglob("*.pt.trace.json")]
    assert traces
    assert all(b"traceEvents" in trace for trace in traces)


def create(cluster: RealCluster, python: Path, folder: Path, *options: str) -> str:
    """What `det experiment create` of the published package says. It must succeed."""
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(config_of(python, "model:DigitsTrial")), encoding="utf-8")
    command = [str(python), "-m", "determined.cli", "-m", cluster.url, "experiment", "create"]
    done = subprocess.run(
        [*command, *options, str(file), str(MODELS / "digits")],
        env={
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
            "OMP_NUM_THREADS": "1",
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_one_batch_at_the_cluster(cluster: RealCluster, torch_python: Path, tmp_path: Path) -> None:
    said = create(cluster, torch_python, tmp_path, "--test")
    number = int(said.split("Created test experiment ")[1].split()[0].rstrip("\x1b[0m"))
    assert cluster.experiment(number)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(number)
    assert trial["totalBatchesProcessed"] == 1


def test_one_batch_without_a_cluster(
    cluster: RealCluster, torch_python: Path, tmp_path: Path
) -> None:
    before = len(cluster.client.experiments(archived=None))
    said = create(cluster, torch_python, tmp_path, "--local", "--test")
    assert "The test experiment passed." in said
    assert len(cluster.client.experiments(archived=None)) == before
