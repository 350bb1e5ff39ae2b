"""Trials of a master that reaches Slurm through a login node: commands over SSH, directories of jobs by SFTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gated_trial import MODEL, all_logs, gated_trial, slurm_master
from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm
from tests.sshd import MISSING, SSHD, login_node

pytestmark = [pytest.mark.slow, pytest.mark.skipif(SSHD is None, reason=MISSING)]


def test_a_gang_from_request_to_end_while_the_login_node_comes_and_goes(
    slurm: Slurm, tmp_path: Path
) -> None:
    jobs, gates = tmp_path / "jobs", tmp_path / "gates"
    gates.mkdir()
    with login_node(tmp_path / "at", slurm.environment) as login:
        settings = slurm_master(jobs, gates, ssh=login.provider_settings())
        with RealCluster(tmp_path / "cluster", settings) as cluster:
            experiment = cluster.submit(gated_trial(gates), MODEL)

            def log() -> str:
                return all_logs(cluster, experiment)

            eventually("it runs", lambda: "run 1, from" in log())
            login.sshd.cut()
            login.sshd.stop()
            waits = cluster.submit(gated_trial(gates), MODEL)
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
