"""A live cluster whose tasks run in containers of a real Podman: an experiment does not notice the difference."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.podman import BARE, IMAGE, Podman
from tests.real_cluster import RealCluster, eventually
from tests.stores import read_rows

MODEL = Path(__file__).parent / "model"
TESTS = Path(__file__).parents[2]
CORE_API = TESTS / "compat/core_api"
PUBLISHED = TESTS.parent / f".compat/lib/python3.{sys.version_info.minor}/site-packages"
SINGLE = {"name": "single", "metric": "loss"}


@pytest.fixture(scope="module")
def cluster(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    options = {"container_runtime": "podman", "container_socket": str(podman.socket)}
    with RealCluster(tmp_path_factory.mktemp("containers"), {}) as cluster:
        cluster.start_agent("node", slots=2, options=options)
        yield cluster


def config(image: str = IMAGE, **changes: Any) -> dict[str, Any]:
    return {
        "name": "in containers",
        "entrypoint": "python3 train.py",
        "searcher": SINGLE,
        "environment": {"image": image},
        "max_restarts": 0,
        **changes,
    }


def steps(cluster: RealCluster, experiment: int) -> int:
    return sum(int(trial.get("totalBatchesProcessed") or 0) for trial in cluster.trials(experiment))


def epochs_said(cluster: RealCluster, trial_id: int) -> list[int]:
    return [int(n) for n in re.findall(r"epoch (\d+)\n", cluster.logs_of(trial_id))]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_search_outlives_its_agent_its_master_and_a_pause(
    cluster: RealCluster, podman: Podman
) -> None:
    search = {"name": "random", "metric": "loss", "max_trials": 4, "max_concurrent_trials": 2}
    experiment = cluster.submit(config(searcher=search), MODEL)
    eventually("epochs are reported", lambda: steps(cluster, experiment) >= 2)
    names = podman.run("ps", "--format", "{{.Names}}").splitlines()
    assert names
    assert all(name.startswith("windlass-") for name in names)
    cluster.kill_agent("node")
    cluster.kill_master()
    cluster.start_master()
    options = {"container_runtime": "podman", "container_socket": str(podman.socket)}
    cluster.start_agent("node", slots=2, options=options)
    session = cluster.client.session
    session.post(f"/api/v1/experiments/{experiment}/pause", {})
    paused = "STATE_PAUSED"
    eventually("it is paused", lambda: cluster.experiment(experiment)["state"] == paused)
    session.post(f"/api/v1/experiments/{experiment}/activate", {})
    assert cluster.wait(experiment, patience_s=200)["state"] == "STATE_COMPLETED"
    rows = read_rows(cluster.data_dir / "windlass.db", "trial", "id")
    bad = [cluster.logs_of(row["id"]) for row in rows if row["restarts"]]
    assert bad == [], "our failures are not the user's"
    for trial in cluster.trials(experiment):
        said = epochs_said(cluster, int(trial["id"]))
        assert said == list(range(1, 7)), "no line is lost, and none is there twice"
        assert "as 65530 False" in cluster.logs_of(int(trial["id"]))
    eventually("no container is left", lambda: not podman.run("ps", "--all", "--quiet"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published client is not installed")
def test_the_published_core_api_is_preempted_and_resumes(cluster: RealCluster) -> None:
    """Its package is mounted: the image has a Python of the same version and nothing else."""
    given = config(
        hyperparameters={"scale": 1.0},
        searcher={**SINGLE, "metric": "val_loss"},
        bind_mounts=[{"host_path": str(PUBLISHED), "container_path": "/mnt/published"}],
        environment={
            "image": IMAGE,
            "environment_variables": ["PYTHONPATH=/mnt/published"],
        },
    )
    experiment = cluster.submit(given, CORE_API)
    trial = eventually("a trial", lambda: cluster.trials(experiment))[0]["id"]
    eventually("it trains", lambda: "step 3 of" in cluster.logs_of(int(trial)))
    cluster.client.act(experiment, "pause")
    paused = "STATE_PAUSED"
    eventually("it is paused", lambda: cluster.experiment(experiment)["state"] == paused)
    cluster.client.act(experiment, "activate")
    assert cluster.wait(experiment, patience_s=200)["state"] == "STATE_COMPLETED"
    log = cluster.logs_of(int(trial))
    said = [int(n) for n in re.findall(r"step (\d+) of 12", log)]
    assert said == list(range(1, 13)), "no step is lost, and none is done twice"
    assert "resumed at step" in log


SENTENCES = [
    pytest.param(
        {"image": "localhost/nothing:1"}, "", "image localhost/nothing:1 ", id="missing image"
    ),
    pytest.param({"image": BARE}, "", "the image has no python3 in its PATH", id="no python"),
    pytest.param({}, "exec sh -c 'exit 7'", "exit code: 7", id="its own failure"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "entrypoint", "says"), SENTENCES)
def test_what_went_wrong_is_one_sentence_on_the_trial(
    changes: dict[str, Any], entrypoint: str, says: str, cluster: RealCluster
) -> None:
    given = config(environment={"image": IMAGE, **changes})
    if entrypoint:
        given["entrypoint"] = entrypoint
    experiment = cluster.submit(given, MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_ERROR"
    lines = cluster.logs_of(int(cluster.trials(experiment)[0]["id"])).splitlines()
    told = [line for line in lines if says in line]
    assert told, lines
    assert "Traceback" not in "".join(lines)


def test_a_container_that_ignores_term_is_killed(cluster: RealCluster, podman: Podman) -> None:
    stubborn = config(entrypoint="trap '' TERM; echo deaf; while :; do sleep 0.1; done")
    experiment = cluster.submit(stubborn, MODEL)
    trial = eventually("a trial", lambda: cluster.trials(experiment))[0]["id"]
    eventually("it runs", lambda: "deaf" in cluster.logs_of(int(trial)))
    cluster.client.session.post(f"/api/v1/experiments/{experiment}/kill", {})
    assert cluster.wait(experiment)["state"] == "STATE_CANCELED"
    eventually("no container is left", lambda: not podman.run("ps", "--all", "--quiet"))


def test_the_agent_says_what_runs_its_tasks(cluster: RealCluster) -> None:
    [agent] = cluster.client.agents()
    assert agent["containerRuntime"].startswith("podman ")
    assert agent["isolation"] == "containers"
