"""A database that is gone, locked or full while work runs: said in words, nothing lost, nothing twice."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually
from windlass.base.errors import WindlassError

MODEL = Path(__file__).parent / "model"
EPOCHS = 8
CONFIG = {
    "name": "without a database",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": EPOCHS}},
    "hyperparameters": {"x": 1.0},
    "max_restarts": 0,
}
POOLS = {"resource_pools": [{"pool_name": "default"}]}

pytestmark = pytest.mark.timeout(300)


def begun(cluster: RealCluster) -> int:
    """An experiment whose trial has reported, with epochs before it."""
    experiment = cluster.submit(CONFIG, MODEL)
    eventually("it reports", lambda: cluster.trials(experiment)[0]["totalBatchesProcessed"])
    return experiment


def refusal(cluster: RealCluster, experiment: int, size: int) -> str:
    """Why this description is not written now, or nothing."""
    try:
        cluster.client.session.request(
            "PATCH", f"/api/v1/experiments/{experiment}", body={"description": "x" * size}
        )
    except WindlassError as error:
        return error.message
    return ""


def check_whole(cluster: RealCluster, experiment: int) -> None:
    """Every epoch was reported once, in one run."""
    ended = cluster.wait(experiment)
    assert ended["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    query = {"trialIds": trial["id"], "group": "validation"}
    parts: list[Any] = list(
        cluster.client.session.stream("/api/v1/trials/metrics/trial_metrics", query)
    )
    steps = [row["totalBatches"] for part in parts for row in part["metrics"]]
    assert steps == list(range(1, EPOCHS + 1))
    assert trial["restarts"] == 0


def test_postgresql_that_is_gone(
    own_postgres: Any, postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if "WINDLASS_TEST_POSTGRES" in os.environ:
        pytest.skip("stops a server of its own only")
    config = {**POOLS, "db": {"url": postgres_url}}
    with RealCluster(tmp_path_factory.mktemp("away"), config) as cluster:
        cluster.start_agent("node")
        experiment = begun(cluster)
        own_postgres.stop()
        try:
            eventually("the lease is old", lambda: "the lease was not renewed" in cluster.log())
            assert "the database cannot be reached now" in refusal(cluster, experiment, 1)
        finally:
            own_postgres.ensure_postgres_running()
        check_whole(cluster, experiment)
        assert refusal(cluster, experiment, 1) == ""


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A cluster on SQLite, whose data folder is a small disk."""
    folder = tmp_path_factory.mktemp("small")
    data = folder / "master"
    data.mkdir(parents=True, mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m,mode=711", "tmpfs", str(data)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounts no small disk: not root, or not allowed to")
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    checkpoints.chmod(0o1777)
    storage = {"type": "shared_fs", "host_path": str(checkpoints)}
    try:
        with RealCluster(folder, {**POOLS, "checkpoint_storage": storage}) as cluster:
            cluster.start_agent("node")
            yield cluster
    finally:
        subprocess.run(["umount", "-l", str(data)], check=True)


def fill(filler: Path) -> None:
    """Its disk."""
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def test_sqlite_that_is_locked_and_then_on_a_full_disk(small: RealCluster) -> None:
    experiment = begun(small)
    database = sqlite3.connect(small.data_dir / "windlass.db", isolation_level=None)
    with closing(database) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "database is locked" in refusal(small, experiment, 1)
        other.execute("ROLLBACK")
    filler = small.data_dir / "filler"
    fill(filler)
    assert "disk is full" in refusal(small, experiment, 200_000)
    filler.unlink()
    check_whole(small, experiment)
    assert refusal(small, experiment, 200_000) == ""
