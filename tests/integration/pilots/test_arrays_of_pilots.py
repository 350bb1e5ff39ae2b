"""Equal pilots on a real Slurm: one submission for all, found again after kill -9, and each ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pilot_sites import SlurmSite
from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm, require_slurm, running_slurm

pytestmark = pytest.mark.slow

MODEL = Path(__file__).parents[1] / "slurm" / "model"
PILOTS = 4
SBATCH = """#!/bin/sh
[ -e {folder}/pass ] && exec /usr/bin/sbatch "$@"
/usr/bin/sbatch "$@" > {folder}/answer
touch {folder}/submitted
while [ ! -e {folder}/pass ]; do sleep 0.1; done
cat {folder}/answer
"""
"""It submits, and holds the answer back until there is a file `pass`."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require_slurm()
    folder = tmp_path_factory.mktemp("s")
    folder.chmod(0o755)
    with running_slurm(folder, nodes=PILOTS) as one, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", one.environment["SLURM_CONF"])
        yield one


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder with an sbatch of the test's own."""
    program = tmp_path / "sbatch"
    program.write_text(SBATCH.format(folder=tmp_path))
    program.chmod(0o755)
    return tmp_path


@pytest.fixture
def cluster(slurm: Slurm, commands: Path) -> Iterator[RealCluster]:
    provider = {
        **SlurmSite.provider,
        "mode": "pilot",
        "walltimes": ["1h"],
        "path": str(commands),
    }
    pool = {
        "pool_name": "pilots",
        "max_instances": PILOTS,
        "max_idle_agent_period": "3s",
        "provider": provider,
    }
    folder = commands / "cluster"
    settings = {"resource_pools": [pool], "allowed_host_paths": [str(commands)]}
    with RealCluster(folder, settings) as running:
        yield running
        (commands / "pass").touch()  # where the test failed before it
        running.recover()
        eventually("its pilots are over", lambda: not slurm.jobs())
        eventually("its agents are forgotten", lambda: not running.agents())


def search(gates: Path) -> dict[str, Any]:
    gates.mkdir()
    random = {"name": "random", "metric": "loss", "max_trials": PILOTS}
    return {
        "name": "a search",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": [{"host_path": str(gates), "container_path": "/gates"}],
        "searcher": {**random, "max_concurrent_trials": PILOTS},
        "resources": {"slots_per_trial": 2, "resource_pool": "pilots"},
        "max_restarts": 0,
    }


def test_a_search_is_one_submission_whose_jobs_end_apart_also_after_a_kill(
    cluster: RealCluster, slurm: Slurm, commands: Path
) -> None:
    """kill -9 comes between the submission and its answer."""
    site = SlurmSite(slurm)
    gates = commands / "gates"
    experiment = cluster.submit(search(gates), MODEL)
    eventually("it is submitted", (commands / "submitted").exists)
    cluster.kill_master()
    (commands / "pass").touch()
    cluster.start_master()
    eventually("all run", lambda: running(cluster, experiment) == PILOTS)
    assert len(site.submissions()) == 1
    assert len(site.all_jobs()) == PILOTS
    first, *others = cluster.trials(experiment)
    cluster.client.session.post(f"/api/v1/trials/{first['id']}/kill")
    eventually("its pilot ended", lambda: len(site.jobs()) == PILOTS - 1)
    assert len(site.jobs("running")) == PILOTS - 1
    (gates / "open").touch()
    cluster.wait(experiment)
    states = {trial["id"]: trial["state"] for trial in cluster.trials(experiment)}
    assert {states[trial["id"]] for trial in others} == {"STATE_COMPLETED"}
    assert len(site.all_jobs()) == PILOTS, "nothing was submitted twice"


def running(cluster: RealCluster, experiment: int) -> int:
    """Trials that wait at their gate."""
    logs = (cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment))
    return sum("run 1, from" in log for log in logs)
