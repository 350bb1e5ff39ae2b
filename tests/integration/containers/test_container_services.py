"""Shells and notebooks in containers of a real Podman with a network of their own, and whom tasks of each kind are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.podman import IMAGE, WITH_SSHD, Podman, add_sshd
from tests.published import needs_published, run_det
from tests.real_cluster import RealCluster, eventually

pytestmark = [pytest.mark.slow, needs_published]

PACKAGES = Path(__file__).parents[3] / ".jupyter/lib/python3.11/site-packages"
SAYS_WHO = 'echo "I am $(id)"'
DEFAULT = {"uid": 41001, "gid": 41002, "user": "everybody", "group": "all"}
POOLS = ["podman", "processes"]
KINDS = ["command", "shell", "notebook"]
MODEL = Path(__file__).parent / "model"


def own_address() -> str:
    """Of this machine, which containers with a network of their own reach."""
    for found in psutil.net_if_addrs().values():
        for one in found:
            if one.family.name == "AF_INET" and not one.address.startswith("127."):
                return one.address
    pytest.skip("this machine has no address but the loopback's")


@pytest.fixture(scope="module")
def cluster(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    add_sshd(podman)
    config = {
        "host": "0.0.0.0",  # noqa: S104  (containers reach it by another address than the loopback)
        "resource_pools": [{"pool_name": name} for name in POOLS],
        "task_container_defaults": {"startup_hook": SAYS_WHO},
        "security": {"default_task": DEFAULT},
    }
    with RealCluster(tmp_path_factory.mktemp("services"), config) as cluster:
        options = {"container_runtime": "podman", "container_socket": str(podman.socket)}
        cluster.start_agent("p", pool="podman", host=own_address(), options=options)
        cluster.start_agent("b", pool="processes", options={"container_runtime": "process"})
        yield cluster


def launch(cluster: RealCluster, kind: str, pool: str = "podman", **more: Any) -> str:
    """Its id. `more`: of its configuration."""
    environment = {"image": IMAGE, **more.pop("environment", {})}
    resources = {"slots": 0, "resource_pool": pool}
    if kind == "command":
        more["entrypoint"] = ["true"]
    body = {"config": {"environment": environment, "resources": resources, **more}}
    return str(cluster.client.session.post(f"/api/v1/{kind}s", body)[kind]["id"])


def log(cluster: RealCluster, task_id: str) -> str:
    lines = cluster.client.session.stream(f"/api/v1/tasks/{task_id}/logs", None)
    return "".join(str(line["log"]) + "\n" for line in lines)


def is_ready(cluster: RealCluster, task_id: str) -> bool:
    task = cluster.get(f"/api/v1/tasks/{task_id}")["task"]
    assert task["endTime"] is None, log(cluster, task_id)
    return bool(task["allocations"] and task["allocations"][0]["isReady"])


def ended(cluster: RealCluster, task_id: str) -> str:
    """The log of a task that is over."""
    path = f"/api/v1/tasks/{task_id}"
    eventually("it is over", lambda: cluster.get(path)["task"]["endTime"])
    return log(cluster, task_id)


def test_a_shell_in_an_image_with_sshd(cluster: RealCluster) -> None:
    shell = launch(cluster, "shell", environment={"image": WITH_SSHD})
    eventually("it is ready", lambda: is_ready(cluster, shell))
    words = "id; echo $WINDLASS_LISTEN_ADDRESS; echo $DET_TASK_ID"
    said = run_det(cluster, "shell", "open", shell, words)
    assert "uid=41001(everybody) gid=41002(all)" in said
    assert "0.0.0.0" in said, "its network is its own"  # noqa: S104
    assert shell in said
    cluster.client.session.post(f"/api/v1/shells/{shell}/kill")


@pytest.mark.skipif(not PACKAGES.exists(), reason="JupyterLab is not installed: run make test-slow")
def test_a_notebook_in_an_image_with_jupyterlab(cluster: RealCluster) -> None:
    packages = {"host_path": str(PACKAGES), "container_path": "/mnt/jupyter", "read_only": True}
    variables = ["PYTHONPATH=/mnt/jupyter"]
    notebook = launch(
        cluster,
        "notebook",
        bind_mounts=[packages],
        environment={"environment_variables": variables},
    )
    eventually("it is ready", lambda: is_ready(cluster, notebook))
    address = str(cluster.get(f"/api/v1/notebooks/{notebook}")["notebook"]["serviceAddress"])
    status = cluster.get(address.replace("/?", "/api/status?"))
    assert status["kernels"] == 0
    cluster.client.session.post(f"/api/v1/notebooks/{notebook}/kill")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("shell", "there is no sshd here: add the package openssh-server to the image, or"),
        ("notebook", "JupyterLab is not installed for python3: use an image that has it, name"),
    ],
)
def test_what_an_image_lacks_is_one_sentence(cluster: RealCluster, kind: str, says: str) -> None:
    said = ended(cluster, launch(cluster, kind))
    assert f"windlass launch: {says}" in said
    assert "Traceback" not in said


def says_who(cluster: RealCluster, who: str) -> None:
    """The startup hook of tasks of each kind, in both runtimes."""
    tasks = [(kind, launch(cluster, kind, pool)) for kind in KINDS for pool in POOLS]
    config = {"name": "who", "entrypoint": "true", "searcher": {"name": "single", "metric": "m"}}
    trials = [
        cluster.submit(
            {
                **config,
                "environment": {"image": IMAGE},
                "resources": {"slots_per_trial": 1, "resource_pool": pool},
            },
            MODEL,
        )
        for pool in POOLS
    ]
    for kind, task in tasks:
        eventually("it says who it is", lambda task=task: "I am" in log(cluster, task))
        assert f"I am {who}\n" in log(cluster, task)
        cluster.client.session.post(f"/api/v1/{kind}s/{task}/kill")
    for experiment in trials:
        trial = eventually("a trial", lambda number=experiment: cluster.trials(number))[0]["id"]
        eventually("it says it", lambda number=int(trial): "I am" in cluster.logs_of(number))
        assert f"I am {who}\n" in cluster.logs_of(int(trial))
        cluster.wait(experiment)


@pytest.mark.timeout(300)
def test_tasks_are_whom_workspace_user_or_cluster_say(cluster: RealCluster) -> None:
    """Field by field, the strongest first; `id` prints names."""
    says_who(cluster, "uid=41001(everybody) gid=41002(all) groups=41002(all)")
    user = {"agentUid": 42001, "agentUser": "ann", "agentGid": 42002, "agentGroup": "users"}
    me = int(cluster.get("/api/v1/me")["user"]["id"])
    with cluster.session() as admin:
        admin.login("admin", cluster.password)
        admin.request("PATCH", f"/api/v1/users/{me}", body={"agentUserGroup": user})
    says_who(cluster, "uid=42001(ann) gid=42002(users) groups=42002(users)")
    cluster.kill_master()
    with closing(sqlite3.connect(cluster.data_dir / "windlass.db")) as database, database:
        words = json.dumps({"gid": 43002, "group": "lab"})
        database.execute("UPDATE workspace SET agent_user_group = ? WHERE id = 1", [words])
    cluster.start_master()
    eventually("the agents are back", lambda: len(cluster.agents()) == 2)
    says_who(cluster, "uid=42001(ann) gid=43002(lab) groups=43002(lab)")
