"""TensorBoards, by the published client, unmodified: the real program over files of running experiments, through the
master alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from test_published_client import COMPAT

from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, s3_client, s3_server
from tests.jails import open_way_to
from tests.real_cluster import PATIENCE_S, RealCluster, eventually

TASKS = Path(__file__).parents[2] / ".jupyter"
TRAINING = """
import time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from windlass import core

with core.init() as context:
    folder = context.train.get_tensorboard_path()
    folder.mkdir(parents=True, exist_ok=True)
    writer = EventFileWriter(str(folder))
    step = 0
    while not context.preempt.should_preempt():
        step += 1
        summary = Summary(value=[Summary.Value(tag="loss", simple_value=1 / step)])
        writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))
        writer.flush()
        context.train.report_training_metrics(step, {"loss": 1 / step})
        time.sleep(1)
"""

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists() or not (TASKS / "bin/tensorboard").exists(),
    reason="the published client or TensorBoard is not installed: run make test-slow",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    open_way_to(TASKS / "bin")
    folder = tmp_path_factory.mktemp("tensorboards")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=2)
        yield cluster


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    """A section of a configuration."""
    with s3_server() as url:
        s3_client(url).create_bucket(Bucket="checkpoints")
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "endpoint_url": url}
        yield {"type": "s3", "bucket": "checkpoints", "prefix": "below", **keys}


def det(cluster: RealCluster, *words: str) -> str:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [COMPAT / "det", "-m", cluster.url, "tensorboard", *words],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "BROWSER": f"/bin/sh -c 'echo \"$0\" >> {home}/opened' %s",
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def training(cluster: RealCluster, **config: Any) -> tuple[int, int]:
    """An experiment that goes on and on, and its trial."""
    model = cluster.folder / "model"
    model.mkdir(exist_ok=True)
    (model / "train.py").write_text(TRAINING)
    settings = {
        "name": "watched",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "environment": {"python": str(TASKS)},
        **config,
    }
    experiment = cluster.submit(settings, model)
    trials = f"/api/v1/experiments/{experiment}/trials"
    found = eventually(
        "its trial", lambda: cluster.client.session.get(trials)["trials"], patience_s=PATIENCE_S
    )
    return experiment, int(found[0]["id"])


def asked(cluster: RealCluster, tensorboard: str, path: str, **query: str) -> Any:
    """What the page asks."""
    url = f"{cluster.url}/proxy/{tensorboard}/data/plugin/scalars/{path}"
    login = {"Authorization": f"Bearer {cluster.client.session.token}"}
    answer = httpx2.get(url, params=query, headers=login, timeout=PATIENCE_S)
    return answer.raise_for_status().json()


def steps(cluster: RealCluster, tensorboard: str, run: str) -> list[int]:
    """Of the scalars that the page would show."""
    found = asked(cluster, tensorboard, "tags")
    if "loss" not in found.get(run, {}):
        return []
    return [step for _, step, _ in asked(cluster, tensorboard, "scalars", run=run, tag="loss")]


def watch_grow(cluster: RealCluster, tensorboard: str, run: str) -> None:
    first = eventually("scalars", lambda: steps(cluster, tensorboard, run))
    eventually("more", lambda: steps(cluster, tensorboard, run)[-1:] > first[-1:])
    assert steps(cluster, tensorboard, run)[: len(first)] == first, "none is lost"


def shown(cluster: RealCluster, tensorboard: str) -> Mapping[str, Any]:
    return dict(cluster.client.session.get(f"/api/v1/tensorboards/{tensorboard}")["tensorboard"])


def test_a_running_experiment_is_seen_growing(cluster: RealCluster) -> None:
    experiment, trial = training(cluster)
    said = det(cluster, "start", str(experiment), "--no-browser")
    assert "Tensorboard is running at: " in said
    (task,) = json.loads(det(cluster, "list", "--json"))
    run = f"experiment/{experiment}/trial/{trial}"
    watch_grow(cluster, task["id"], run)

    cluster.kill_master()
    cluster.start_master()
    eventually("the agent is back", lambda: shown(cluster, task["id"])["state"] == "STATE_RUNNING")
    assert task["description"] in det(cluster, "list", "-a")
    assert det(cluster, "list", "-q").split() == [task["id"]]
    assert yaml.safe_load(det(cluster, "config", task["id"]))["idle_timeout"] == "5m"
    eventually("its log", lambda: "TensorBoard 2." in det(cluster, "logs", task["id"]))
    det(cluster, "set", "priority", task["id"], "7")
    assert yaml.safe_load(det(cluster, "config", task["id"]))["resources"]["priority"] == 7
    det(cluster, "open", task["id"][:8])
    opened = (cluster.folder / "home" / "opened").read_text()
    assert f"/det/interactive/{task['id']}/tensorboard/" in opened
    watch_grow(cluster, task["id"], run)
    det(cluster, "kill", task["id"])
    eventually("it ended", lambda: shown(cluster, task["id"])["exitStatus"])
    assert shown(cluster, task["id"])["exitStatus"] == "killed by determined"
    cluster.client.session.post(f"/api/v1/experiments/{experiment}/kill")


def test_trials_in_a_bucket_are_seen_growing(
    cluster: RealCluster, bucket: dict[str, str], tmp_path: Path
) -> None:
    experiment, trial = training(cluster, checkpoint_storage=bucket)
    (tmp_path / "startup-hook.sh").write_text(
        "export SAID=hook\necho the hook of this TensorBoard\n"
    )
    settings = tmp_path.parent / "tensorboard.yaml"
    settings.write_text("tensorboard_args: [--samples_per_plugin=scalars=500]\n")
    unused = tmp_path.parent / "unused.yaml"
    unused.write_text("idle_timeout: 10s\n")
    words = ("--trial-ids", str(trial), "--detach")
    idle = det(cluster, "start", *words, "--config-file", str(unused)).split()[-1]
    words = (*words, "-c", str(tmp_path))
    tensorboard = det(cluster, "start", *words, "--config-file", str(settings)).split()[-1]
    assert shown(cluster, tensorboard)["trialIds"] == [trial]
    task = f"/api/v1/tasks/{tensorboard}"

    def is_ready() -> bool:
        found = cluster.client.session.get(task)["task"]
        assert found["endTime"] is None, list(cluster.client.task_logs(tensorboard))
        return bool(found["allocations"] and found["allocations"][0]["isReady"])

    eventually("it is ready", is_ready)
    watch_grow(cluster, tensorboard, f"experiment/{experiment}/trial/{trial}")
    log = det(cluster, "logs", tensorboard)
    assert "the hook of this TensorBoard" in log
    assert SECRET_KEY not in log
    eventually("the other is ended", lambda: shown(cluster, idle)["exitStatus"])
    reason = "idle for more than 10s: service is inactive"
    assert shown(cluster, idle)["exitStatus"] == f"killed: {reason}"
    assert reason in det(cluster, "logs", idle)
    assert not shown(cluster, tensorboard)["exitStatus"]
    det(cluster, "kill", tensorboard)
    cluster.client.session.post(f"/api/v1/experiments/{experiment}/kill")
