"""An experiment of one trial that works until its gate opens, and a master with one pool of Slurm jobs for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.real_cluster import RealCluster

MODEL = Path(__file__).parent / "integration/slurm/model"


def gated_trial(
    gates: Path, *, slots: int = 4, pool: str = "batch", **settings: Any
) -> dict[str, Any]:
    """It ends once there is a file `open` in the folder `gates`."""
    return {
        "name": "gated",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": [{"host_path": str(gates), "container_path": "/gates"}],
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": slots, "resource_pool": pool},
        "max_restarts": 0,
        **settings,
    }


def slurm_master(jobs: Path, gates: Path, **provider: Any) -> dict[str, Any]:
    """Its master.yaml. `jobs`: the directories of jobs; `provider`: further keys of the pool's section."""
    section = {
        "type": "slurm",
        "partition": "gpu",
        "job_storage_root": str(jobs),
        "python": sys.executable,
        **provider,
    }
    return {
        "resource_pools": [{"pool_name": "batch", "provider": section}],
        "allowed_host_paths": [str(gates)],
    }


def all_logs(cluster: RealCluster, experiment: int) -> str:
    return "".join(cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment))
