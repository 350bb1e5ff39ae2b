"""Nodes with Linux 4.18, as Enterprise Linux 8 has it: calls that came later are not there for what runs in a job."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gated_trial import MODEL, all_logs, gated_trial, slurm_master
from tests.integration.slurm.test_dispatch import Gates, jobs_agents
from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
OLD_KERNEL = Path(__file__).parents[2] / "old_kernel.py"


@pytest.fixture(scope="module")
def cluster(site: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("old-kernel")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {OLD_KERNEL} {sys.executable} "$@"\n')
    python.chmod(0o755)
    config = slurm_master(folder / "jobs", folder / "cluster", python=str(python))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
        with RealCluster(folder / "cluster", config) as running:
            yield running


def test_tasks_start_are_adopted_and_end_there(cluster: RealCluster, slurm: Slurm) -> None:
    """Nothing is left of one that is killed, nor of one whose agent is."""
    gates = Gates(cluster.folder / "gates")
    jobs = cluster.folder.parent / "jobs"
    killed = cluster.submit(gated_trial(gates.folder, slots=1), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, killed))
    cluster.client.session.post(f"/api/v1/experiments/{killed}/kill")
    assert cluster.wait(killed)["state"] == "STATE_CANCELED"
    eventually("nothing of it runs", lambda: not cluster.processes(jobs))

    experiment = cluster.submit(gated_trial(gates.folder, slots=1), MODEL)
    eventually("it works", lambda: "run 1, from" in all_logs(cluster, experiment))
    (agent,) = cluster.processes(jobs, word="agent_bootstrap.agent")
    agent.kill()
    agent.wait(10)
    eventually(
        "another agent is there", lambda: cluster.processes(jobs, word="agent_bootstrap.agent")
    )
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert "run 2, from" not in all_logs(cluster, experiment)
    eventually("its jobs are over", lambda: not slurm.jobs() and not jobs_agents(cluster))
    eventually("nothing is left", lambda: not cluster.processes(jobs))
