"""A live cluster whose tasks run in containers of a real Podman: an experiment does not notice the difference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.podman import BARE, IMAGE, Podman
from tests.published import PublishedDet, needs_published
from tests.real_cluster import WINDLASS, RealCluster, eventually
from tests.stores import read_rows

pytestmark = [pytest.mark.slow, needs_published]

MODEL = Path(__file__).parent / "model"
TESTS = Path(__file__).parents[2]
CORE_API = TESTS / "compat/core_api"
PUBLISHED = TESTS.parent / f".compat/lib/python3.{sys.version_info.minor}/site-packages"
SINGLE = {"name": "single", "metric": "loss"}


@pytest.fixture(scope="module")
def cluster(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("containers"), {}) as cluster:
        start_node(cluster, podman)
        yield cluster


@pytest.fixture(scope="module")
def det(cluster: RealCluster) -> Iterator[PublishedDet]:
    with PublishedDet(cluster) as det:
        yield det


def start_node(cluster: RealCluster, podman: Podman) -> None:
    options = {"container_runtime": "podman", "container_socket": str(podman.socket)}
    cluster.start_agent("node", slots=4, options=options)


def config(image: str = IMAGE, **changes: Any) -> dict[str, Any]:
    return {
        "name": "in containers",
        "entrypoint": "python3 train.py",
        "searcher": SINGLE,
        "environment": {"image": image},
        "max_restarts": 0,
        **changes,
    }


def until_paused(cluster: RealCluster, experiment: int) -> None:
    paused = "STATE_PAUSED"
    eventually("it is paused", lambda: cluster.experiment(experiment)["state"] == paused)
    eventually("its trials have left", lambda: not cluster.client.agents()[0]["containers"])


def steps(cluster: RealCluster, experiment: int) -> int:
    return sum(int(trial.get("totalBatchesProcessed") or 0) for trial in cluster.trials(experiment))


def epochs_said(cluster: RealCluster, trial_id: int) -> list[int]:
    return [int(n) for n in re.findall(r"epoch (\d+)\n", cluster.logs_of(trial_id))]


@pytest.mark.timeout(300)
def test_a_search_outlives_its_agent_its_master_and_a_pause(
    cluster: RealCluster, det: PublishedDet, podman: Podman, tmp_path: Path
) -> None:
    search = {"name": "random", "metric": "loss", "max_trials": 8, "max_concurrent_trials": 4}
    written = tmp_path / "config.yaml"
    # The first trials must still run when the master is back and the pause comes.
    gates = cluster.folder / "gates"
    gates.mkdir()
    held = config(
        searcher=search,
        environment={"image": IMAGE, "environment_variables": ["GATE=/mnt/gates/open"]},
        bind_mounts=[{"host_path": str(gates), "container_path": "/mnt/gates"}],
    )
    written.write_text(yaml.safe_dump(held))
    said = det("experiment", "create", str(written), str(MODEL))
    experiment = int(said.split("Created experiment ")[1].split()[0])
    eventually("epochs are reported", lambda: steps(cluster, experiment) >= 2)
    names = podman.run("ps", "--format", "{{.Names}}").splitlines()
    assert names
    assert all(name.startswith("windlass-") for name in names)
    cluster.kill_agent("node")
    cluster.kill_master()
    cluster.start_master()
    start_node(cluster, podman)
    det("experiment", "pause", str(experiment))
    until_paused(cluster, experiment)
    (gates / "open").touch()
    det("experiment", "activate", str(experiment))
    assert cluster.wait(experiment, patience_s=200)["state"] == "STATE_COMPLETED"
    rows = read_rows(cluster.data_dir / "windlass.db", "trial", "id")
    assert len(rows) == 8
    assert sum(row["run_id"] > 1 for row in rows) >= 2, "some were preempted and resumed"
    bad = [cluster.logs_of(row["id"]) for row in rows if row["restarts"]]
    assert bad == [], "our failures are not the user's"
    for trial in cluster.trials(experiment):
        said = epochs_said(cluster, int(trial["id"]))
        assert said == list(range(1, 7)), "no line is lost, and none is there twice"
        assert "as 65530 False" in cluster.logs_of(int(trial["id"]))
    eventually("no container is left", lambda: not podman.run("ps", "--all", "--quiet"))


@pytest.mark.timeout(300)
def test_the_published_core_api_is_preempted_and_resumes(
    cluster: RealCluster, det: PublishedDet
) -> None:
    """Its package is mounted: the image has a Python of the same version and nothing else."""
    given = config(
        hyperparameters={"scale": 1.0},
        searcher={**SINGLE, "metric": "val_loss"},
        bind_mounts=[{"host_path": str(PUBLISHED), "container_path": "/mnt/published"}],
        environment={
            "image": IMAGE,
            "environment_variables": ["PYTHONPATH=/mnt/published", "HELD_AT=2"],
        },
    )
    experiment = cluster.submit(given, CORE_API)
    trial = eventually("a trial", lambda: cluster.trials(experiment))[0]["id"]
    trains = re.compile("step 2 of|Traceback")
    eventually("it trains", lambda: trains.search(cluster.logs_of(int(trial))))
    cluster.client.act(experiment, "pause")
    assert "Traceback" not in cluster.logs_of(int(trial)), cluster.logs_of(int(trial))
    until_paused(cluster, experiment)
    det("experiment", "activate", str(experiment))
    assert cluster.wait(experiment, patience_s=200)["state"] == "STATE_COMPLETED"
    log = cluster.logs_of(int(trial))
    said = [int(n) for n in re.findall(r"step (\d+) of 12", log)]
    assert said == list(range(1, 13)), "no step is lost, and none is done twice"
    assert "resumed at step" in log


@pytest.mark.parametrize(
    ("image", "entrypoint", "says"),
    [
        pytest.param(BARE, "true", "the image has no python3 in its PATH", id="no python"),
        pytest.param(IMAGE, "exec sh -c 'exit 7'", "exit code: 7", id="its own failure"),
    ],
)
def test_what_went_wrong_is_one_sentence_on_the_trial(
    image: str, entrypoint: str, says: str, cluster: RealCluster
) -> None:
    experiment = cluster.submit(config(image, entrypoint=entrypoint), MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_ERROR"
    lines = cluster.logs_of(int(cluster.trials(experiment)[0]["id"])).splitlines()
    told = [line for line in lines if says in line]
    assert told, lines
    assert "Traceback" not in "".join(lines)


@pytest.mark.parametrize(
    ("entrypoint", "cause"),
    [
        ("python3 -c 'import torch'", "ModuleNotFoundError: No module named 'torch'"),
        ("python3 -m trian", "No module named trian"),
        ("python3 trian.py", "can't open file '/run/determined/workdir/trian.py'"),
    ],
)
def test_the_cause_of_a_crash_is_shown_wherever_its_user_looks(
    entrypoint: str, cause: str, cluster: RealCluster
) -> None:
    experiment = cluster.submit(config(entrypoint=entrypoint), MODEL)
    ended, [trial] = cluster.wait(experiment), cluster.trials(experiment)
    assert cause in ended["error"], (ended, cluster.logs_of(int(trial["id"])))
    assert cause in trial["error"], trial
    login = {**os.environ, **cluster.login_as(), "DET_MASTER": cluster.url}
    looks = (("wait", str(experiment)), ("describe", str(experiment)), ("list",))
    for words in looks:
        done = subprocess.run(
            [WINDLASS, "experiment", *words], env=login, capture_output=True, text=True, check=False
        )
        assert done.returncode == (words[0] == "wait"), done
        assert cause in done.stdout + done.stderr, done


def test_the_agent_says_what_runs_its_tasks(cluster: RealCluster) -> None:
    [agent] = cluster.client.agents()
    assert agent["containerRuntime"].startswith("podman ")
    assert agent["isolation"] == "containers"
