"""Users linked with identities of the agents' machines by the published client, and checkpoints of several users."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_bootstrap.protocol import IsolationKind
from tests.real_cluster import RealCluster, eventually
from windlass.sdk.client import Client
from windlass.sdk.session import Session
from windlass.sdk.wire import Json

COMPAT = Path(__file__).parents[2] / ".compat" / "bin"
PUBLISHED_PYTHON = {"python": str(COMPAT / "python")}
"""In agent.yaml: what tasks that choose no Python use."""
MODEL = Path(__file__).parent / "core_api"
CONFIG = """
name: of several users
entrypoint: python3 train.py
searcher: {name: single, metric: val_loss}
hyperparameters: {scale: 3.0}
resources: {slots_per_trial: 1}
max_restarts: 0
environment: {environment_variables: [HELD_AT=2 4]}
"""
ANN = (
    "--agent-uid",
    "41001",
    "--agent-user",
    "ann",
    "--agent-gid",
    "41002",
    "--agent-group",
    "lab",
)
ROOT = {"agentUid": 0, "agentUser": "root", "agentGid": 0, "agentGroup": "root"}
BOB = {"agentUid": 41003, "agentUser": "bob", "agentGid": 41003, "agentGroup": "bob"}

pytestmark = [
    pytest.mark.skipif(
        not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as others"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("identity")
    pool = {"pool_name": "default", "require_isolation": False}
    with RealCluster(folder, {"resource_pools": [pool]}) as cluster:
        cluster.start_agent("node", slots=2, options=PUBLISHED_PYTHON)
        (agent,) = eventually("the agent is there", lambda: cluster.get("/api/v1/agents")["agents"])
        if agent["isolation"] not in (IsolationKind.BUBBLEWRAP, IsolationKind.NAMESPACES):
            pytest.skip("no namespaces here: tasks run as the agent")
        yield cluster


def det(cluster: RealCluster, *arguments: str, user: str = "determined", code: int = 0) -> str:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    done = subprocess.run(
        [COMPAT / "det", "-m", cluster.url, *arguments],
        env={**environment, **cluster.login_as(user)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def link(cluster: RealCluster, who: Json) -> None:
    """By our own client, which is faster. Nothing: the link ends."""
    with Session(cluster.url) as session:
        session.login("admin", cluster.password)
        Client(session).link_agent_user(2, who)


def test_a_task_of_nobody_in_particular_has_no_rights(cluster: RealCluster) -> None:
    said = det(cluster, "cmd", "run", "id; cat /etc/shadow && echo read it")
    assert "uid=65530(task) gid=65530(task) groups=65530(task)" in said
    assert "read it" not in said


def test_a_linked_user_finds_itself_in_its_tasks(cluster: RealCluster) -> None:
    det(cluster, "user", "link-with-agent-user", "determined", *ANN, user="admin")
    said = det(cluster, "cmd", "run", "id; id -un; touch file; stat -c '%U:%G' file")
    assert "uid=41001(ann) gid=41002(lab)" in said
    assert "ann:lab" in said
    assert "ann" in det(cluster, "user", "list")
    link(cluster, {})
    assert "uid=65530(task)" in det(cluster, "cmd", "run", "id")


def test_only_administrators_link(cluster: RealCluster) -> None:
    said = det(cluster, "user", "link-with-agent-user", "determined", *ANN, code=1)
    assert "uid=65530(task)" in det(cluster, "cmd", "run", "id"), said


def test_a_trial_goes_on_as_another_user_from_the_checkpoints_of_the_one_before(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """As root first: that is what storage looks like that an earlier release has written."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    link(cluster, ROOT)
    det(cluster, "e", "create", str(config), str(MODEL))
    experiment = int(cluster.client.experiments(archived=None)[0]["id"])
    pause_after(cluster, experiment, steps=1)
    activate_as(cluster, experiment, {})
    pause_after(cluster, experiment, steps=trained(cluster, experiment) + 1)
    activate_as(cluster, experiment, BOB)
    assert "STATE_COMPLETED" in cluster.wait(experiment)["state"]
    link(cluster, {})
    storage = cluster.data_dir / "checkpoints"
    by_step = {
        c["metadata"]["steps_completed"]: (storage / c["uuid"]).stat().st_uid
        for c in cluster.client.checkpoints(experiment)
    }
    assert [by_step[step] for step in sorted(by_step)] == [0, 65530, 41003]
    assert storage.stat().st_mode & 0o7777 == 0o1777


def test_tasks_of_a_workspace_run_as_it_says_and_otherwise_as_their_owner(
    cluster: RealCluster,
) -> None:
    link(cluster, BOB)
    cluster.kill_master()
    with closing(sqlite3.connect(cluster.data_dir / "windlass.db")) as database, database:
        lab = json.dumps({"gid": 41009, "group": "lab"})
        database.execute("UPDATE workspace SET agent_user_group = ? WHERE id = 1", (lab,))
    cluster.start_master()
    assert "uid=41003(bob) gid=41009(lab)" in det(cluster, "cmd", "run", "id")
    shown = det(cluster, "workspace", "describe", "Uncategorized")
    assert "41009" in shown
    assert "lab" in shown
    link(cluster, {})
    assert "uid=65530(task) gid=41009(lab)" in det(cluster, "cmd", "run", "id")


def activate_as(cluster: RealCluster, experiment: int, who: Json) -> None:
    link(cluster, who)
    cluster.client.session.post(f"/api/v1/experiments/{experiment}/activate")


def trained(cluster: RealCluster, experiment: int) -> int:
    trials = cluster.trials(experiment)
    ended = cluster.experiment(experiment)["state"] == "STATE_ERROR"
    assert not ended, cluster.logs_of(int(trials[0]["id"]))
    return int(trials[0]["totalBatchesProcessed"]) if trials else 0


def pause_after(cluster: RealCluster, experiment: int, *, steps: int) -> None:
    eventually(f"{steps} steps are trained", lambda: trained(cluster, experiment) >= steps)
    cluster.client.session.post(f"/api/v1/experiments/{experiment}/pause")
    eventually(
        "the trial has left",
        lambda: (
            cluster.experiment(experiment)["state"] == "STATE_PAUSED"
            and not cluster.get("/api/v1/agents")["agents"][0]["containers"]
        ),
    )
