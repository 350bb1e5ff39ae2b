"""Trials on nodes that open no connection to their master: Slurm's own pipe into the job, and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
MODEL = Path(__file__).parent / "model"


@pytest.mark.parametrize(("way", "slots"), [("srun", 4), ("files", 1)])
def test_a_trial_by_it_and_nothing_is_left(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, slots: int
) -> None:
    for name, value in slurm.environment.items():
        monkeypatch.setitem(os.environ, name, value)
    jobs, gates = tmp_path / "jobs", tmp_path / "gates"
    gates.mkdir()
    tmp_path.chmod(0o755)
    gates.chmod(0o755)
    (gates / "open").touch()
    provider = {
        "type": "slurm",
        "partition": "gpu",
        "job_storage_root": str(jobs),
        "python": sys.executable,
        "channels": [way],
    }
    settings = {
        "resource_pools": [{"pool_name": "batch", "provider": provider}],
        "security": {"tls": {"self_signed": True}},
        "allowed_host_paths": [str(gates)],
    }
    experiment = {
        "name": way,
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": [{"host_path": str(gates), "container_path": "/gates"}],
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": slots, "resource_pool": "batch"},
        "max_restarts": 0,
    }
    with RealCluster.self_signed(tmp_path / "cluster", settings) as cluster:
        id_ = cluster.submit(experiment, MODEL)

        def log() -> str:
            return "".join(cluster.logs_of(t["id"]) for t in cluster.trials(id_))

        assert cluster.wait(id_)["state"] == "STATE_COMPLETED", log()
        assert "run 1, from step 0" in log()
        eventually("its jobs are over", lambda: not slurm.jobs())
        eventually("its directories are gone", lambda: not list(jobs.glob("wl-*")))
        eventually("nobody asks any more", lambda: not list((jobs / "asks").iterdir()))
    eventually("nothing of it runs", lambda: not _named(str(jobs)))


def _named(word: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(word in one for one in process.info["cmdline"] or ())
        and "agent_bootstrap" in " ".join(process.info["cmdline"] or ())
    ]
