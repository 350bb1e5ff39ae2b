"""Trials as jobs of a PBS that replays what was recorded of OpenPBS 23.06.06, and really runs their commands."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.pbs import Pbs, running_pbs
from tests.real_cluster import WINDLASS, RealCluster, eventually
from windlass.base.errors import WindlassError

pytestmark = pytest.mark.slow
MODEL = Path(__file__).parents[1] / "slurm" / "model"


class Gates:
    """Files that trials wait for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def open(self) -> None:
        (self._folder / "open").touch()

    def config(self, pool: str = "batch", **settings: Any) -> dict[str, Any]:
        """Their /tmp is their own."""
        return {
            "name": "dispatched",
            "entrypoint": "python3 train.py",
            "hyperparameters": {"gate": "/gates/open"},
            "bind_mounts": [{"host_path": str(self._folder), "container_path": "/gates"}],
            "searcher": {"name": "single", "metric": "loss", "max_length": 1},
            "resources": {"slots_per_trial": 4, "resource_pool": pool},
            "max_restarts": 0,
            **settings,
        }


@pytest.fixture(scope="module")
def pbs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pbs]:
    with running_pbs(tmp_path_factory.mktemp("site")) as pbs:
        yield pbs
        assert pbs.unrecorded == []


@pytest.fixture(scope="module")
def shared(pbs: Pbs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """One master for all tests of this file. There are no GPUs here: slots are CPUs."""
    folder = tmp_path_factory.mktemp("dispatch")
    site = {
        "type": "pbs",
        "path": pbs.path,
        "slot_type": "cpu",
        "slots_per_node": 2,
        "cpus_per_slot": 4,
    }
    settings = {
        "resource_pools": [
            {"pool_name": "batch", "provider": site},
            {"pool_name": "minutes", "provider": {**site, "walltime": "1m"}},
            {"pool_name": "own"},
            {"pool_name": "nowhere", "provider": {**site, "queue": "nosuch"}},
        ],
        "allowed_host_paths": [str(folder / "cluster")],
    }
    with RealCluster(folder / "cluster", settings) as running:
        yield running


@pytest.fixture
def cluster(shared: RealCluster, pbs: Pbs) -> Iterator[RealCluster]:
    """With nothing left of other tests, and nothing left by this one: no job, agent, directory or process."""
    yield shared
    shared.recover()
    eventually("its jobs are over", lambda: not jobs(pbs))
    eventually("its agents are forgotten", lambda: not jobs_agents(shared))
    eventually("its directories are gone", lambda: not list(shared.data_dir.glob("jobs/wl-*")))
    eventually("its processes are gone", lambda: not jobs_processes(shared))


@pytest.fixture
def gates(shared: RealCluster) -> Gates:
    return Gates(shared.folder / f"gates-{len(list(shared.folder.glob('gates-*')))}")


def jobs(pbs: Pbs) -> dict[str, dict[str, Any]]:
    """Those that are not over."""
    return json.loads(pbs.run("qstat", "-f", "-F", "json")).get("Jobs", {})


def jobs_agents(cluster: RealCluster) -> list[str]:
    return [name for name in cluster.agents() if name.startswith("wl-")]


def jobs_processes(cluster: RealCluster) -> list[psutil.Process]:
    return cluster.processes(cluster.data_dir / "jobs")


def why_it_waits(cluster: RealCluster, experiment: int) -> str:
    """As `det job explain` shows it."""
    job = cluster.experiment(experiment)["jobId"]
    return json.dumps(cluster.get(f"/api/v1/windlass/jobs/{job}/explain"))


def logs(cluster: RealCluster, experiment: int) -> str:
    return "".join(cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment))


def test_a_gang_on_two_nodes_from_request_to_end(
    cluster: RealCluster, pbs: Pbs, gates: Gates
) -> None:
    """The others wait behind it, with the reason of PBS."""
    runs = cluster.submit(gates.config(), MODEL)
    eventually("it runs", lambda: "run 1, from" in logs(cluster, runs))
    waits = cluster.submit(gates.config(), MODEL)
    eventually(
        "the site's reason shows",
        lambda: "in queue workq is pending: Not Running: Insuff" in why_it_waits(cluster, waits),
    )
    assert "no nodes of that shape are free" in why_it_waits(cluster, waits)
    gates.open()
    for experiment in (runs, waits):
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", logs(cluster, experiment)
        assert "rank 0 of 2" in logs(cluster, experiment)
        assert "rank 1 of 2" in logs(cluster, experiment)


@pytest.mark.parametrize("history", [True, False])
def test_qdel_by_somebody_else_ends_the_trial(
    cluster: RealCluster, pbs: Pbs, gates: Gates, history: bool
) -> None:
    """It is not submitted again, whatever restarts it has left; also where PBS forgets it at once."""
    with contextlib.nullcontext() if history else pbs.marked("no-history"):
        experiment = cluster.submit(gates.config(max_restarts=5), MODEL)
        eventually("it runs", lambda: "run 1, from" in logs(cluster, experiment))
        (id_,) = jobs(pbs)
        pbs.run("qdel", id_)
        assert cluster.wait(experiment)["state"] == "STATE_ERROR"
        assert "was cancelled at the site" in logs(cluster, experiment)
        assert "run 2" not in logs(cluster, experiment)


def test_a_master_that_is_killed_finds_its_jobs_again(
    cluster: RealCluster, pbs: Pbs, gates: Gates
) -> None:
    """One that runs and one that pends; nothing is submitted twice."""
    runs = cluster.submit(gates.config(), MODEL)
    eventually("it runs", lambda: "run 1, from" in logs(cluster, runs))
    pends = cluster.submit(gates.config(), MODEL)
    eventually("the other pends", lambda: len(jobs(pbs)) == 2)
    before = sorted(jobs(pbs))
    cluster.kill_master()
    cluster.start_master()
    eventually("its agents are back", lambda: len(jobs_agents(cluster)) == 2)
    assert sorted(jobs(pbs)) == before
    gates.open()
    for experiment in (runs, pends):
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
        assert "run 1, from" in logs(cluster, experiment)


def test_a_server_that_is_away_stops_no_trial(cluster: RealCluster, pbs: Pbs, gates: Gates) -> None:
    experiment = cluster.submit(gates.config(), MODEL)
    eventually("it runs", lambda: "run 1, from" in logs(cluster, experiment))
    pbs.down(True)
    waits = cluster.submit(gates.config(), MODEL)
    eventually("it is said", lambda: "Connection refused" in why_it_waits(cluster, waits))
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    cluster.client.session.post(f"/api/v1/experiments/{waits}/kill")
    pbs.down(False)
    assert cluster.wait(waits)["state"] == "STATE_CANCELED"


def test_training_goes_on_in_another_job_when_the_time_is_over(
    cluster: RealCluster, gates: Gates
) -> None:
    """A minute each: it makes a checkpoint in time, and ends with the metrics of one long run."""
    settings = {
        "resources": {"slots_per_trial": 2, "resource_pool": "minutes"},
        "preemption_timeout": 45,
        "hyperparameters": {"gate": "/gates/open", "steps": 40},
    }
    experiment = cluster.submit(gates.config(**settings), MODEL)
    eventually(
        "it runs in a second job", lambda: "run 2, from step 39" in logs(cluster, experiment)
    )
    gates.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0
    assert trial["latestValidation"]["metrics"]["avgMetrics"]["loss"] == round(1 / 40, 6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resources": {"slots_per_trial": 8, "resource_pool": "batch"}}, "maximum of queue workq"),
        ({"pbs": {"pbsbatch_args": ["-q short"]}}, "PBS option -q is not configurable"),
        (
            {"resources": {"slots_per_trial": 1, "resource_pool": "nowhere"}},
            "PBS has no queue 'nosuch'",
        ),
    ],
)
def test_what_pbs_could_never_give_is_refused_at_submission(
    cluster: RealCluster, gates: Gates, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(WindlassError, match=message):
        cluster.submit(gates.config(**settings), MODEL)


def test_an_agent_in_a_users_own_job_joins_knows_its_end_and_leaves_at_its_warning(
    cluster: RealCluster, pbs: Pbs, gates: Gates
) -> None:
    """qdel, and the end of the walltime, give the processes of a job 10 seconds."""
    token = cluster.folder / "own.token"
    words = ("master", "pool-token", "own", "-c", str(cluster.config_file))
    said = subprocess.run(
        [WINDLASS, *words, "--data-dir", str(cluster.data_dir)], check=True, capture_output=True
    )
    token.touch(mode=0o600)
    token.write_bytes(said.stdout)
    agent = f"exec {WINDLASS} agent run --master {cluster.url} --pool own --artificial-slots 2"
    agent += f" --join-token-file {token} --work-dir {cluster.folder}/of-jobs/$PBS_JOBID"
    script = cluster.folder / "own.sh"
    script.write_text(f"#!/bin/sh\n{agent}\n")
    script.chmod(0o755)
    options = ("-N", "own", "-j", "oe", "-k", "oed", "-o", f"{script}.log", "-r", "n")
    limits = ("-l", "walltime=01:30:00", "-l", "select=1:ncpus=1")
    job = pbs.run("qsub", *options, *limits, "--", str(script)).strip()
    name = f"pbs-{job.partition('.')[0]}-0"
    eventually("it has joined", lambda: name in cluster.agents())
    assert "ends at" in json.dumps(cluster.get(f"/api/v1/agents/{name}"))
    resources = {"slots_per_trial": 2, "resource_pool": "own"}
    experiment = cluster.submit(gates.config(resources=resources), MODEL)
    eventually("it works", lambda: "run 1, from" in logs(cluster, experiment))
    pbs.run("qsig", "-s", "TERM", job)
    eventually("the job ends by itself", lambda: job not in jobs(pbs))
    gates.open()
    again = pbs.run("qsub", *options, *limits, "--", str(script)).strip()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", logs(cluster, experiment)
    assert "run 2, from" in logs(cluster, experiment)
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0
    pbs.run("qsig", "-s", "TERM", again)
    eventually("the job ends by itself", lambda: again not in jobs(pbs))
