"""Tasks of each kind in containers of a real Podman, with a network of their own or the machine's; whom they are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.interactive import (
    JUPYTER,
    PACKAGES,
    Notebook,
    answer,
    ask,
    ended,
    kill,
    launch,
    needs_jupyter,
    run_of,
    serving,
    shown_runs,
    task_log,
    unstarted_experiment,
    until_ready,
)
from tests.jails import open_way_to
from tests.podman import IMAGE, WITH_SSHD, Podman, add_sshd
from tests.published import needs_published, run_det
from tests.real_cluster import RealCluster, eventually, free_port

pytestmark = [pytest.mark.slow, needs_published]

SAYS_WHO = 'echo "I am $(id)"'
DEFAULT = {"uid": 41001, "gid": 41002, "user": "everybody", "group": "all"}
WHO = "uid=41001(everybody) gid=41002(all) groups=41002(all)"
NETWORKS = {"bridge": "podman", "host": "podman-host"}
"""`network_mode` -> the pool whose containers have it."""
POOLS = ["podman", "processes"]
"""One of each runtime."""
FOR_ROOT = ["SETGID", "SETUID", "SYS_CHROOT"]
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
    networks = [
        {"pool_name": pool, "task_container_defaults": {"network_mode": mode}}
        for mode, pool in NETWORKS.items()
    ]
    config = {
        "host": "0.0.0.0",  # noqa: S104  (containers reach it by another address than the loopback)
        "resource_pools": [*networks, {"pool_name": "processes"}],
        "task_container_defaults": {"startup_hook": SAYS_WHO},
        "security": {"default_task": DEFAULT},
        "allowed_capabilities": FOR_ROOT,
    }
    with RealCluster(tmp_path_factory.mktemp("services"), config) as cluster:
        options = {"container_runtime": "podman", "container_socket": str(podman.socket)}
        for pool in NETWORKS.values():
            cluster.start_agent(pool, pool=pool, host=own_address(), options=options)
        cluster.start_agent("b", pool="processes", options={"container_runtime": "process"})
        yield cluster


def start(cluster: RealCluster, kind: str, pool: str = "podman", **config: Any) -> str:
    """The id of a new task in that pool, by default in an image without sshd and JupyterLab."""
    environment = {"image": IMAGE, **config.pop("environment", {})}
    resources = {"slots": 0, "resource_pool": pool}
    request = config.pop("request", {})
    settings = {"environment": environment, "resources": resources, **config}
    return launch(cluster, kind, settings, **request)


def with_jupyter(pool: str) -> dict[str, Any]:
    """Of the configuration of a task there: its image, or its process, has JupyterLab and TensorBoard."""
    if pool == "processes":
        return {"environment": {"python": str(JUPYTER)}}
    mounts = {PACKAGES: "/mnt/jupyter", JUPYTER / "share/jupyter": "/usr/share/jupyter"}
    return {
        "bind_mounts": [
            {"host_path": str(source), "container_path": target, "read_only": True}
            for source, target in mounts.items()
        ],
        "environment": {"environment_variables": ["PYTHONPATH=/mnt/jupyter"]},
    }


@pytest.mark.parametrize("pool", [*NETWORKS.values(), "processes"])
def test_a_shell_in_an_image_with_sshd(cluster: RealCluster, pool: str) -> None:
    shell = start(cluster, "shell", pool, environment={"image": WITH_SSHD})
    until_ready(cluster, shell)
    words = "id; echo listens on ${WINDLASS_LISTEN_ADDRESS:-the loopback}; echo $DET_TASK_ID"
    said = run_det(cluster, "shell", "open", shell, words)
    assert WHO in said
    listens = "on 0.0.0.0" if pool == NETWORKS["bridge"] else "on the loopback"
    assert f"listens {listens}" in said
    assert shell in said
    kill(cluster, "shell", shell)


def link(cluster: RealCluster, **who: Any) -> None:
    """The user of these tests with an identity; without `who` with none."""
    me = int(cluster.get("/api/v1/me")["user"]["id"])
    with cluster.session() as admin:
        admin.login("admin", cluster.password)
        admin.request("PATCH", f"/api/v1/users/{me}", body={"agentUserGroup": who})


def test_a_shell_as_root(cluster: RealCluster) -> None:
    """Where it may have what sshd needs; elsewhere a sentence says so."""
    link(cluster, agentUid=0, agentUser="root", agentGid=0, agentGroup="root")
    image = {"image": WITH_SSHD}
    told = ended(cluster, start(cluster, "shell", environment=image))
    assert "sshd cannot let anybody in as root here, where tasks have no capabilities" in told
    shell = start(cluster, "shell", environment={**image, "add_capabilities": FOR_ROOT})
    until_ready(cluster, shell)
    said = run_det(cluster, "shell", "open", shell, "id; echo in $DET_TASK_ID")
    assert "uid=0(root) gid=0(root)" in said
    assert f"in {shell}" in said
    kill(cluster, "shell", shell)
    link(cluster)


@needs_jupyter
@pytest.mark.parametrize("pool", POOLS)
def test_a_notebook_in_an_image_with_jupyterlab(cluster: RealCluster, pool: str) -> None:
    open_way_to(JUPYTER / "bin")
    notebook = start(cluster, "notebook", pool, **with_jupyter(pool))
    opened = Notebook(cluster, notebook)
    assert "<title>JupyterLab</title>" in opened.page()
    code = "import subprocess; print(subprocess.check_output('id', text=True))"
    assert opened.executed(code).strip() == WHO
    kill(cluster, "notebook", notebook)


@needs_jupyter
@pytest.mark.parametrize("pool", NETWORKS.values())
def test_a_tensorboard_in_an_image_that_has_it(cluster: RealCluster, pool: str) -> None:
    """It sees the storage of the experiment, whose image it takes over."""
    storage = cluster.folder / f"storage of {pool}"
    storage.mkdir()
    where = {"environment": {"image": IMAGE}, "resources": {"resource_pool": pool}}
    experiment = unstarted_experiment(cluster, storage, **where)
    config = {**with_jupyter(pool), "resources": {"resource_pool": pool}}
    tensorboard = launch(cluster, "tensorboard", config, experimentIds=[experiment])
    assert shown_runs(cluster, tensorboard) == [run_of(experiment)]
    assert f"I am {WHO}\n" in task_log(cluster, tensorboard)
    kill(cluster, "tensorboard", tensorboard)


@pytest.mark.parametrize("pool", NETWORKS.values())
def test_a_generic_task_is_paused_and_goes_on(cluster: RealCluster, pool: str) -> None:
    port, session = free_port(), cluster.client.session
    settings = serving(port)
    settings["environment"]["image"] = IMAGE
    task = start(cluster, "generic", pool, **settings)
    path = f"/api/v1/tasks/{task}"
    assert answer(cluster, f"{task}:{port}") == f"{task}.1"
    session.post(f"{path}/pause")
    paused = "GENERIC_TASK_STATE_PAUSED"
    eventually("it is paused", lambda: cluster.get(path)["task"]["taskState"] == paused)
    assert ask(cluster, f"{task}:{port}").status_code == 404
    session.post(f"{path}/unpause")
    assert answer(cluster, f"{task}:{port}") == f"{task}.2"
    kill(cluster, "generic", task)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("shell", "there is no sshd here: add the package openssh-server to the image, or"),
        ("notebook", "JupyterLab is not installed for python3: use an image that has it, name"),
    ],
)
def test_what_an_image_lacks_is_one_sentence(cluster: RealCluster, kind: str, says: str) -> None:
    said = ended(cluster, start(cluster, kind))
    assert f"windlass launch: {says}" in said
    assert "Traceback" not in said


def says_who(cluster: RealCluster, who: str) -> None:
    """Tasks of each kind in both runtimes: their programs, and the startup hook of those that serve."""
    programs = [
        start(cluster, kind, pool, entrypoint=["id"])
        for kind in ("command", "generic")
        for pool in POOLS
    ]
    services = [
        (kind, start(cluster, kind, pool)) for kind in ("shell", "notebook") for pool in POOLS
    ]
    config = {"name": "who", "entrypoint": "id", "searcher": {"name": "single", "metric": "m"}}
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
    for task in programs:
        assert f"I am {who}\n{who}\n" in ended(cluster, task)
    for kind, task in services:
        eventually("it says who it is", lambda task=task: "I am" in task_log(cluster, task))
        assert f"I am {who}\n" in task_log(cluster, task)
        kill(cluster, kind, task)
    for experiment in trials:
        cluster.wait(experiment)
        (trial,) = cluster.trials(experiment)
        said = cluster.logs_of(int(trial["id"]))
        assert f"|| I am {who}\n" in said
        assert f"|| {who}\n" in said


@pytest.mark.timeout(300)
def test_tasks_are_whom_workspace_user_or_cluster_say(cluster: RealCluster) -> None:
    """Field by field, the strongest first; `id` prints names."""
    says_who(cluster, WHO)
    link(cluster, agentUid=42001, agentUser="ann", agentGid=42002, agentGroup="users")
    says_who(cluster, "uid=42001(ann) gid=42002(users) groups=42002(users)")
    cluster.kill_master()
    with closing(sqlite3.connect(cluster.data_dir / "windlass.db")) as database, database:
        words = json.dumps({"gid": 43002, "group": "lab"})
        database.execute("UPDATE workspace SET agent_user_group = ? WHERE id = 1", [words])
    cluster.start_master()
    eventually("the agents are back", lambda: len(cluster.agents()) == 3)
    says_who(cluster, "uid=42001(ann) gid=43002(lab) groups=43002(lab)")
