"""Batch jobs that many trials share, on a real Slurm: what is submitted, found again, left in time, and ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm

pytestmark = pytest.mark.slow

MODEL = Path(__file__).parent / "model"
POOL = {
    "pool_name": "pilots",
    "max_instances": 2,
    "max_idle_agent_period": "3s",
    "provider": {"type": "slurm", "mode": "pilot", "partition": "gpu", "walltimes": ["1h"]},
}


@pytest.fixture(scope="module")
def shared(site: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """One master for all tests of this file."""
    folder = tmp_path_factory.mktemp("pilots")
    settings = {"resource_pools": [POOL], "allowed_host_paths": [str(folder / "cluster")]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
        with RealCluster(folder / "cluster", settings) as running:
            yield running


@pytest.fixture
def cluster(shared: RealCluster, slurm: Slurm) -> Iterator[RealCluster]:
    """Idle pilots end by themselves: no job, agent or process is left by a test."""
    yield shared
    eventually("its pilots are over", lambda: not slurm.jobs())
    eventually("its agents are forgotten", lambda: not shared.agents())
    mark = str(shared.data_dir / "jobs")
    eventually(
        "its processes are gone",
        lambda: not [p for p in shared.processes() if any(mark in w for w in p.cmdline())],
    )


@pytest.fixture
def gate(shared: RealCluster, request: pytest.FixtureRequest) -> Path:
    """A file that trials wait for."""
    folder = shared.folder / f"gate-of-{request.node.name[:40]}"
    folder.mkdir()
    return folder / "open"


@pytest.fixture
def before(slurm: Slurm) -> frozenset[str]:
    return frozenset(all_jobs(slurm))


def all_jobs(slurm: Slurm) -> list[str]:
    """Of whichever state."""
    return slurm.run("squeue", "-h", "-t", "all", "-o", "%j").split()


def config(gate: Path, slots: int, **settings: Any) -> dict[str, Any]:
    return {
        "name": "on pilots",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gate/open"},
        "bind_mounts": [{"host_path": str(gate.parent), "container_path": "/gate"}],
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": slots, "resource_pool": "pilots"},
        "max_restarts": 0,
        **settings,
    }


def all_logs(cluster: RealCluster, experiment: int) -> str:
    return "".join(cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment))


def test_twelve_short_trials_share_two_pilots(
    cluster: RealCluster, slurm: Slurm, gate: Path, before: frozenset[str]
) -> None:
    gate.touch()
    search = {"name": "random", "metric": "loss", "max_trials": 12, "max_concurrent_trials": 12}
    experiment = cluster.submit(config(gate, 1, searcher=search), MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert len(cluster.trials(experiment)) == 12
    mine = set(all_jobs(slurm)) - before
    assert len(mine) == 2
    assert all(name.startswith("wp-") for name in mine)


def test_a_gang_is_one_job_of_two_nodes(
    cluster: RealCluster, slurm: Slurm, gate: Path, before: frozenset[str]
) -> None:
    gate.touch()
    experiment = cluster.submit(config(gate, 4), MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    log = all_logs(cluster, experiment)
    assert "rank 0 of 2: gpus 0,1" in log
    assert "rank 1 of 2: gpus 0,1" in log
    assert len(set(all_jobs(slurm)) - before) == 1


def test_a_master_that_is_killed_finds_its_pilots_again(
    cluster: RealCluster, slurm: Slurm, gate: Path, before: frozenset[str]
) -> None:
    """One that works, and one that queues behind another user's job."""
    blocker = slurm.run(
        *("sbatch", "--parsable", "-w", "n2", "--gres=gpu:2", "--output=/dev/null"),
        "--wrap=sleep 600",
    ).strip()
    runs = cluster.submit(config(gate, 2), MODEL)
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, runs))
    waits = cluster.submit(config(gate, 2), MODEL)
    eventually("another pilot queues", lambda: slurm.jobs("PENDING"))
    mine = sorted(set(slurm.jobs()) - before)
    cluster.kill_master()
    cluster.start_master()
    eventually("its agent is back", lambda: len(cluster.agents()) == 1)
    slurm.run("scancel", blocker)
    eventually("the other runs", lambda: "run 1, from" in all_logs(cluster, waits))
    assert sorted(set(slurm.jobs()) - before) == [name for name in mine if name != "wrap"]
    gate.touch()
    for experiment in (runs, waits):
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
        assert "run 2" not in all_logs(cluster, experiment)


def test_a_pilot_that_somebody_cancels_is_a_loss_and_another_comes(
    cluster: RealCluster, slurm: Slurm, gate: Path
) -> None:
    experiment = cluster.submit(config(gate, 2), MODEL)
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, experiment))
    slurm.run("scancel", "--name", slurm.jobs("RUNNING")[0])
    eventually("it runs again", lambda: all_logs(cluster, experiment).count("rank 0 of 1") == 2)
    assert "was cancelled at the site" in all_logs(cluster, experiment)
    gate.touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"


def test_work_leaves_before_the_time_of_its_pilot_is_over(
    cluster: RealCluster, slurm: Slurm, gate: Path
) -> None:
    """It makes a checkpoint and goes on in the next pilot, which was submitted meanwhile."""
    settings = {"hyperparameters": {"gate": "/gate/open", "steps": 40}, "preemption_timeout": 60}
    experiment = cluster.submit(config(gate, 2, **settings), MODEL)
    eventually("it runs", lambda: "run 1, from" in all_logs(cluster, experiment))
    (first,) = slurm.jobs("RUNNING")
    eventually("it has worked", lambda: cluster.trials(experiment)[0]["totalBatchesProcessed"] > 30)
    record = cluster.data_dir / "pilots" / f"{first}.json"
    eventually("its end was seen", lambda: json.loads(record.read_bytes())["ends_at"] is not None)
    id_ = slurm.run("squeue", "-h", "-n", first, "-o", "%i").strip()
    slurm.run("scontrol", "update", f"JobId={id_}", "TimeLimit=2")
    eventually("it goes on", lambda: "run 2, from step 39" in all_logs(cluster, experiment))
    assert "ends job" in all_logs(cluster, experiment)
    assert [name for name in slurm.jobs("RUNNING") if name != first]
    gate.touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    assert trial["restarts"] == 0
