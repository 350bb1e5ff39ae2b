"""Each verb of `det task` for generic tasks, of the published client, unmodified, on real agents."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_published_client import COMPAT

from tests.real_cluster import PATIENCE_S, RealCluster, eventually

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)
LISTENER = """
import json, os, urllib.request

def call(method, what):
    url = f"{os.environ['DET_MASTER']}/api/v1/allocations/{os.environ['DET_ALLOCATION_ID']}/signals/{what}"
    headers = {"Authorization": "Bearer " + os.environ["DET_SESSION_TOKEN"]}
    asked = urllib.request.Request(url, method=method, headers=headers)
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)

if os.environ["DET_ALLOCATION_ID"].endswith(".1"):
    call("GET", "preemption?timeoutSeconds=0")
    print("it listens", flush=True)
    while not (told := call("GET", "preemption?timeoutSeconds=60"))["preempt"]:
        pass
    call("POST", "ack_preemption")
    print("it leaves:", told["reason"], flush=True)
else:
    print("it goes on", flush=True)
"""
"""Asks whether to leave, as trials do; its second allocation ends at once."""
PARTS = """
import json, os
met = json.load(open(os.environ["DET_RUN_DIR"] + "/info/rendezvous.json"))
print("part", met["container_rank"], "of", len(met["container_addrs"]), flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("generic")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        for name in ("one", "two"):
            cluster.start_agent(name, slots=2)
        yield cluster


def attempt(cluster: RealCluster, *words: str) -> subprocess.CompletedProcess[str]:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [COMPAT / "det", "-m", cluster.url, "task", *words],
        env={"HOME": str(home), "PATH": os.environ["PATH"], **cluster.login_as()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def det(cluster: RealCluster, *words: str) -> str:
    done = attempt(cluster, *words)
    assert done.returncode == 0, done.stdout
    return done.stdout


def create(cluster: RealCluster, folder: Path, *words: str, **config: Any) -> str:
    """The id of a new task."""
    file = folder / "task.yaml"
    file.write_text(yaml.safe_dump(config))
    return created(det(cluster, "create", str(file), *words))


def created(said: str) -> str:
    (task_id,) = re.findall(r"^Created task (\S+)$", said, re.MULTILINE)
    return str(task_id)


def shown(cluster: RealCluster, task_id: str) -> dict[str, Any]:
    return dict(cluster.client.session.get(f"/api/v1/tasks/{task_id}")["task"])


def until(cluster: RealCluster, task_id: str, state: str) -> None:
    word = f"GENERIC_TASK_STATE_{state}"
    eventually(f"{task_id} is {state}", lambda: shown(cluster, task_id)["taskState"] == word)


def test_a_task_leaves_when_it_is_paused_and_goes_on(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "listen.py").write_text(LISTENER)
    entrypoint = ["python3", "listen.py"]
    task = create(
        cluster,
        tmp_path,
        *("-c", str(tmp_path / "context"), "--project_id", "1"),
        *("--config", "resources.slots=1"),
        entrypoint=entrypoint,
    )
    eventually("it listens", lambda: "it listens" in det(cluster, "logs", task))
    assert f"Generic Task {task}" in det(cluster, "list")
    (row,) = csv.DictReader(io.StringIO(det(cluster, "list", "--csv")))
    assert (row["Allocation ID"], row["Slots Needed"]) == (f"{task}.1", "1")
    assert list(json.loads(det(cluster, "list", "--json"))) == [f"{task}.1"]
    assert det(cluster, "pause", task) == f"Paused task: {task}\n"
    until(cluster, task, "PAUSED")
    assert "it leaves: paused by determined" in det(cluster, "logs", task)
    refused = attempt(cluster, "pause", task)
    assert refused.returncode != 0
    assert "it is in state PAUSED" in refused.stdout
    assert det(cluster, "unpause", task) == f"Unpaused task: {task}\n"
    until(cluster, task, "COMPLETED")
    second = det(cluster, "logs", "--allocation-id", f"{task}.2", task)
    assert "it goes on" in second
    config = {"entrypoint": entrypoint, "resources": {"slots": 1}}
    assert yaml.safe_load(det(cluster, "config", task)) == config
    assert json.loads(det(cluster, "config", "--json", task)) == config
    refused = attempt(cluster, "kill", task)
    assert f"cannot cancel task {task} as it is in state COMPLETED" in refused.stdout


def test_a_tree_is_killed_from_its_root(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "run.sh").write_text("echo it runs; exec sleep 600")
    parent = create(
        cluster,
        tmp_path,
        *("-c", str(tmp_path / "context")),
        entrypoint=["sh", "run.sh"],
        resources={"slots": 0},
    )
    words = ("--parent", parent, "--inherit_context", "--fork", parent, "--no_pause")
    child = create(cluster, tmp_path, *words, resources={"slots": 0})
    fork = created(det(cluster, "fork", parent, "--project_id", "1"))
    for task in (parent, child, fork):
        eventually("it runs", lambda task=task: "it runs" in det(cluster, "logs", task))
    assert "noPause" in attempt(cluster, "pause", child).stdout
    det(cluster, "pause", fork)
    until(cluster, fork, "PAUSED")
    assert det(cluster, "kill", "--root", child) == f"Sucessfully killed task: {child}\n"
    for task in (parent, child):
        until(cluster, task, "CANCELED")
    det(cluster, "kill", fork)
    until(cluster, fork, "CANCELED")
    assert "make sure task is of type GENERIC" in attempt(cluster, "config", "nobody").stdout


def test_parts_on_two_agents_know_each_other(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "part.py").write_text(PARTS)
    file = tmp_path / "task.yaml"
    resources = {"slots": 4, "is_single_node": False}
    file.write_text(yaml.safe_dump({"entrypoint": ["python3", "part.py"], "resources": resources}))
    said = det(cluster, "create", str(file), "-c", str(tmp_path / "context"), "-f")
    assert "part 0 of 2" in said
    assert "part 1 of 2" in said
    assert "Task log stream ended" in said
