"""Jobs on a real Slurm whose agents do not reach the master: where each is, as its user and an operator see it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gated_trial import MODEL, gated_trial
from tests.real_cluster import WINDLASS, RealCluster, eventually, free_port
from tests.slurm import Slurm

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealCluster]:
    """Its nodes are told of a port where nobody listens."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    nowhere = f"http://127.0.0.1:{free_port()}"
    site = {"type": "slurm", "partition": "gpu", "master_url": nowhere}
    pools = [
        {"pool_name": "batch", "provider": site},
        {"pool_name": "pilots", "provider": {**site, "mode": "pilot", "walltimes": ["1h"]}},
    ]
    settings = {"resource_pools": pools, "allowed_host_paths": [str(tmp_path)]}
    with RealCluster(tmp_path / "cluster", settings) as running:
        yield running
        slurm.run("scancel", "--me")


def det(cluster: RealCluster, *words: str) -> str:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(cluster.folder),
        "DET_MASTER": cluster.url,
        **cluster.login_as("admin"),
    }
    done = subprocess.run(
        [WINDLASS, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,  # a launch that was delivered just now has other names
        timeout=60,
    )
    return " ".join(done.stdout.split())


def submit(cluster: RealCluster, folder: Path, pool: str) -> str:
    """Its job."""
    gates = folder / "gates"
    gates.mkdir()
    config = gated_trial(gates, slots=4, pool=pool)
    return str(cluster.experiment(cluster.submit(config, MODEL))["jobId"])


def until(cluster: RealCluster, expected: str, *words: str) -> str:
    """What `det` says, once that is in it."""

    def look() -> str | None:
        said = det(cluster, *words)
        return said if expected in said else None

    return eventually(f"{words[0]} {words[1]} says: {expected}", look)


def block(slurm: Slurm) -> str:
    """All nodes; the site knows when they are free."""
    words = ("--parsable", "-N2", "--gres=gpu:2", "--time=10", "--output=/dev/null")
    job = slurm.run("sbatch", *words, "--wrap=sleep 600").strip()
    eventually("the site is full", lambda: slurm.jobs("RUNNING"))
    return job


def test_a_dispatched_job_shows_where_it_is(
    cluster: RealCluster, slurm: Slurm, tmp_path: Path
) -> None:
    blocker = block(slurm)
    job = submit(cluster, tmp_path, "batch")
    waits = until(cluster, "the site expects it to start at", "job", "explain", job)
    assert "in partition gpu is pending: Resources" in waits or "pending: Priority" in waits
    slurm.run("scancel", blocker)
    runs = until(cluster, "runs on n1, n2 since", "job", "explain", job)
    assert "0 of 2 agents have joined" in runs
    met = until(cluster, "node 0: no connection to the master", "job", "explain", job)
    assert "direct: " in met or "Connect" in met, met


def test_a_pilot_shows_where_it_is(cluster: RealCluster, slurm: Slurm, tmp_path: Path) -> None:
    """First as a launch that its site has not delivered, then as machines without agents."""
    blocker = block(slurm)
    submit(cluster, tmp_path, "pilots")

    def described(expected: str) -> str:
        def look() -> str | None:
            found = cluster.instances()
            said = det(cluster, "fleet", "describe", found[0]["id"]) if found else ""
            return said if expected in said else None

        return eventually(f"fleet describe says: {expected}", look)

    assert " is pending: " in described("expected to start at")
    slurm.run("scancel", blocker)
    assert "0 of 2 agents have joined" in described("runs on n1, n2 since")
    described("node 0: no connection to the master")
    (job,) = slurm.jobs("RUNNING")
    nodes = cluster.data_dir / "jobs" / job / "nodes"
    assert len(list(nodes.glob("*/host.state"))) == 2
