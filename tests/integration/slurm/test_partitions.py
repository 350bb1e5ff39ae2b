"""`resource_manager: {type: slurm}` on a real Slurm: a pool for each partition, also while the controller is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MODEL = Path(__file__).parent / "model"
MANAGER = {
    "type": "slurm",
    "rendezvous_network_interface": "lo",
    "user_name": "launcher",
    "partition_overrides": {"SHORT": {"description": "two minutes"}},
}


def test_a_pool_for_each_partition(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that names none runs in the site's default; a master starts while the controller is down."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    more = [{"pool_name": "gpu-again", "provider": {"type": "hpc", "partition": "gpu"}}]
    settings = {"resource_manager": MANAGER, "resource_pools": more}
    with RealCluster(tmp_path / "cluster", settings) as cluster:
        pools = cluster.get("/api/v1/resource-pools")["resourcePools"]
        names = ["gpu", "short", "closed", "scavenger", "urgent", "gpu-again"]
        assert sorted(pool["name"] for pool in pools) == sorted(names)
        assert {pool["schedulerType"] for pool in pools} == {"SCHEDULER_TYPE_SLURM"}
        described = {pool["name"]: pool["description"] for pool in pools}
        assert described["short"] == "two minutes"
        assert [pool["name"] for pool in pools if pool["defaultComputePool"]] == ["gpu"]
        assert "warning: resource_manager.user_name has no effect" in cluster.log()
        first = cluster.submit(config(), MODEL)
        assert cluster.wait(first)["state"] == "STATE_COMPLETED", cluster.log()
        assert "rank 1 of 2" in cluster.logs_of(cluster.trials(first)[0]["id"])

        slurm.stop_controller()
        cluster.kill_master()
        cluster.start_master()
        pools = cluster.get("/api/v1/resource-pools")["resourcePools"]
        assert sorted(pool["name"] for pool in pools) == sorted(names)
        second = cluster.submit(config(), MODEL)
        slurm.start_controller()
        assert cluster.wait(second)["state"] == "STATE_COMPLETED", cluster.log()
        eventually("its jobs are over", lambda: not slurm.jobs())


def config() -> dict[str, object]:
    return {
        "name": "dispatched",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/"},
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": 4},
        "max_restarts": 0,
    }
