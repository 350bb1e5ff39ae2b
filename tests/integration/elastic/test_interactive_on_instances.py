"""Tasks of each kind in pools without a machine: one is launched for each, as its user reads, and ends after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.interactive import (
    JUPYTER,
    Notebook,
    answer,
    ask,
    kill,
    launch,
    needs_jupyter,
    run_of,
    serving,
    shown_runs,
    unstarted_experiment,
    until_ready,
)
from tests.jails import open_way_to
from tests.published import needs_published, run_det
from tests.real_cluster import RealCluster, embedded_pool, eventually, free_port

KINDS = ("command", "generic", "shell", "notebook", "tensorboard", "unused")
"""Each has a pool of this name. `unused`: a notebook that nobody opens."""
IDLE = "10s"
pytestmark = [needs_published, needs_jupyter]


@dataclass(frozen=True)
class Launched:
    """A task of each kind, by the name of its pool."""

    cluster: RealCluster
    tasks: dict[str, str]
    ports: dict[str, int]

    def service(self, kind: str) -> str:
        """What the proxy calls it."""
        port = f":{self.ports[kind]}" if kind in self.ports else ""
        return f"{self.tasks[kind]}{port}"

    def instances(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.cluster.instances() if one["pool"] == kind]

    def is_gone(self, kind: str) -> bool:
        """With all that ran on it."""
        hosts = self.cluster.data_dir / "instances" / kind
        return not self.instances(kind) and not self.cluster.processes(hosts)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    folder = tmp_path_factory.mktemp("elastic")
    open_way_to(JUPYTER / "bin")
    (folder / "storage").mkdir()
    pools = [embedded_pool(pool_name=kind, max_instances=1, boot_time="2s") for kind in KINDS]
    with RealCluster(folder, {"resource_pools": pools}) as cluster:
        found = Launched(cluster, {}, {kind: free_port() for kind in ("command", "generic")})
        for kind in KINDS:
            found.tasks[kind] = launch_one(found, kind)
            eventually(
                f"the {kind} is told that a machine is launched for it",
                lambda kind=kind: is_told(cluster, kind),
            )
        yield found


def launch_one(to: Launched, kind: str) -> str:
    """Its id."""
    place = {"resources": {"resource_pool": kind, "slots": 1}}
    if kind in to.ports:
        return launch(to.cluster, kind, {**serving(to.ports[kind]), **place})
    config = {**place, "environment": {"python": str(JUPYTER)}}
    if kind == "tensorboard":
        storage = to.cluster.folder / "storage"
        experiment = unstarted_experiment(to.cluster, storage, resources={"resource_pool": kind})
        return launch(to.cluster, kind, config, experimentIds=[experiment])
    if kind == "unused":
        return launch(to.cluster, "notebook", {**config, "idle_timeout": IDLE})
    return launch(to.cluster, kind, config if kind == "notebook" else place)


def is_told(cluster: RealCluster, pool: str) -> bool:
    """Whether the one job of a pool reads that it waits for a machine that is being launched."""
    (job,) = cluster.get(f"/api/v1/job-queues?resourcePool={pool}")["jobs"]
    told = rf"launching 1 x embedded-2 in local|{pool}-\w+-0 booting for \d+ s, .+"
    return re.fullmatch(told, job["waitingReason"] or "") is not None


@pytest.mark.parametrize("kind", ["command", "generic"])
def test_a_port_is_reached(launched: Launched, kind: str) -> None:
    assert answer(launched.cluster, launched.service(kind)) == f"{launched.tasks[kind]}.1"


def test_a_shell_is_opened(launched: Launched) -> None:
    shell = launched.tasks["shell"]
    until_ready(launched.cluster, shell)
    (machine,) = launched.instances("shell")
    said = run_det(launched.cluster, "shell", "open", shell, "echo $DET_TASK_ID on $DET_AGENT_ID")
    assert f"{shell} on {machine['id']}" in said
    assert machine["activity"] == "busy"


def test_a_notebook_is_opened(launched: Launched) -> None:
    notebook = Notebook(launched.cluster, launched.tasks["notebook"])
    assert "<title>JupyterLab</title>" in notebook.page()
    (machine,) = launched.instances("notebook")
    code = "import os; print(os.environ['DET_AGENT_ID'])"
    assert notebook.executed(code) == f"{machine['id']}\n"


def test_a_tensorboard_is_opened_that_holds_no_slot(launched: Launched) -> None:
    tensorboard = launched.tasks["tensorboard"]
    assert shown_runs(launched.cluster, tensorboard) == [run_of(1)]
    (machine,) = launched.instances("tensorboard")
    assert machine["activity"] == "busy", "for nothing else would be launched"
    path = f"/api/v1/agents/{machine['id']}"
    assert not any(
        slot["container"] for slot in launched.cluster.get(path)["agent"]["slots"].values()
    )


def test_a_notebook_that_nobody_opens_lets_its_machine_go(launched: Launched) -> None:
    notebook = launched.tasks["unused"]
    shown = eventually("it ended", lambda: exit_status(launched.cluster, notebook))
    assert shown == f"killed: idle for more than {IDLE}: service is inactive"
    eventually("its machine ended", lambda: launched.is_gone("unused"))


def exit_status(cluster: RealCluster, notebook: str) -> str:
    return str(cluster.get(f"/api/v1/notebooks/{notebook}")["notebook"]["exitStatus"])


def test_a_paused_task_lets_its_machine_go_and_gets_another(launched: Launched) -> None:
    task, session = launched.tasks["generic"], launched.cluster.client.session
    (first,) = launched.instances("generic")
    session.post(f"/api/v1/tasks/{task}/pause")
    eventually("its machine ended", lambda: launched.is_gone("generic"))
    session.post(f"/api/v1/tasks/{task}/unpause")
    assert answer(launched.cluster, launched.service("generic")) == f"{task}.2"
    (second,) = launched.instances("generic")
    assert second["id"] != first["id"]


def test_machines_end_after_their_tasks(launched: Launched) -> None:
    for kind in KINDS[:-1]:
        kill(launched.cluster, kind, launched.tasks[kind])
    for kind in KINDS[:-1]:
        eventually(f"that of the {kind} ended", lambda kind=kind: launched.is_gone(kind))
        assert ask(launched.cluster, launched.service(kind)).status_code == 404
