"""Trials as batch jobs, on a real Slurm: from the request to the end of the job, with nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm

MODEL = Path(__file__).parent / "model"
POOLS = [{"pool_name": "batch", "provider": {"type": "slurm", "partition": "gpu"}}]


class Gates:
    """Files that trials wait for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def open(self) -> None:
        (self._folder / "open").touch()

    @property
    def mounts(self) -> list[dict[str, str]]:
        """Their /tmp is their own."""
        return [{"host_path": str(self._folder), "container_path": "/gates"}]


def config(gates: Gates, **settings: Any) -> dict[str, Any]:
    return {
        "name": "dispatched",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": gates.mounts,
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": 4, "resource_pool": "batch"},
        "max_restarts": 0,
        **settings,
    }


@pytest.fixture
def cluster(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealCluster]:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    settings = {"resource_pools": POOLS, "allowed_host_paths": [str(tmp_path)]}
    with RealCluster(tmp_path / "cluster", settings) as running:
        yield running


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path / "gates")


def test_a_gang_on_two_nodes_from_request_to_end(
    cluster: RealCluster, slurm: Slurm, gates: Gates
) -> None:
    gates.open()
    experiment = cluster.submit(config(gates), MODEL)
    ended = cluster.wait(experiment)
    (trial,) = cluster.trials(experiment)
    log = cluster.logs_of(trial["id"])
    assert ended["state"] == "STATE_COMPLETED", log
    assert "rank 0 of 2: gpus 0,1" in log
    assert "rank 1 of 2: gpus 0,1" in log
    eventually("its job is over", lambda: not slurm.jobs())
    eventually("its agents are forgotten", lambda: not cluster.agents())
    eventually("its directory is gone", lambda: not list(cluster.data_dir.glob("jobs/*")))
