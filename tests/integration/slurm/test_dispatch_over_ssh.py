"""Trials of a master that reaches Slurm through a login node: commands over SSH, directories of jobs by SFTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm
from tests.sshd import MISSING, SSHD, login_node

pytestmark = [pytest.mark.slow, pytest.mark.skipif(SSHD is None, reason=MISSING)]
MODEL = Path(__file__).parent / "model"


def config(folder: Path) -> dict[str, Any]:
    return {
        "name": "dispatched",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": [{"host_path": str(folder), "container_path": "/gates"}],
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": 4, "resource_pool": "batch"},
        "max_restarts": 0,
    }


def test_a_gang_from_request_to_end_while_the_login_node_comes_and_goes(
    slurm: Slurm, tmp_path: Path
) -> None:
    jobs, gates = tmp_path / "jobs", tmp_path / "gates"
    gates.mkdir()
    with login_node(tmp_path / "at", slurm.environment) as login:
        user, _, host = login.sshd.spec.partition("@")
        provider = {
            "type": "slurm",
            "partition": "gpu",
            "job_storage_root": str(jobs),
            "python": sys.executable,
            "ssh": {
                "host": host,
                "user": user,
                "key_file": str(login.key),
                "known_hosts": str(login.known_hosts),
            },
        }
        settings = {
            "resource_pools": [{"pool_name": "batch", "provider": provider}],
            "allowed_host_paths": [str(gates)],
        }
        with RealCluster(tmp_path / "cluster", settings) as cluster:
            experiment = cluster.submit(config(gates), MODEL)

            def log() -> str:
                return "".join(cluster.logs_of(t["id"]) for t in cluster.trials(experiment))

            eventually("it runs", lambda: "run 1, from" in log())
            login.sshd.cut()
            login.sshd.stop()
            waits = cluster.submit(config(gates), MODEL)
            job = cluster.experiment(waits)["jobId"]

            def why() -> str:
                return json.dumps(cluster.get(f"/api/v1/windlass/jobs/{job}/explain"))

            (gates / "open").touch()
            assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", log()
            assert "rank 1 of 2" in log()
            login.sshd.start()
            assert cluster.wait(waits, patience_s=110)["state"] == "STATE_COMPLETED", why()
            eventually("its jobs are over", lambda: not slurm.jobs())
            eventually("its directories are gone", lambda: not list(jobs.glob("wl-*")))
