"""Tasks of each kind in pools without a machine: one is launched for each, as its user reads, and ends after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import yaml

from tests.jails import open_way_to
from tests.published import needs_published, run_det
from tests.real_cluster import PATIENCE_S, RealCluster, embedded_pool, eventually, free_port

JUPYTER = Path(__file__).parents[3] / ".jupyter"
KINDS = ("command", "generic", "shell", "notebook", "tensorboard", "unused")
"""Each has a pool of this name. `unused`: a notebook that nobody opens."""
IDLE = "10s"
SERVE = """
import http.server, os, sys

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = " ".join(os.environ[name] for name in ("DET_TASK_ID", "DET_ALLOCATION_ID")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""

pytestmark = [
    needs_published,
    pytest.mark.skipif(
        not (JUPYTER / "bin/tensorboard").exists(),
        reason="JupyterLab and TensorBoard are not installed: run make test-slow",
    ),
]


@dataclass(frozen=True)
class Launched:
    """A task of each kind, by the name of its pool."""

    cluster: RealCluster
    tasks: dict[str, str]
    ports: dict[str, int]

    def ask(self, kind: str, path: str = "") -> httpx.Response:
        """Its service, as a user who has logged in to the master."""
        port = f":{self.ports[kind]}" if kind in self.ports else ""
        url = f"{self.cluster.url}/proxy/{self.tasks[kind]}{port}/{path}"
        login = {"Authorization": f"Bearer {self.cluster.client.session.token}"}
        return httpx.get(url, headers=login, timeout=PATIENCE_S)

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
    storage = folder / "storage"
    storage.mkdir()
    pools = [embedded_pool(pool_name=kind, max_instances=1, boot_time="2s") for kind in KINDS]
    config = {
        "resource_pools": pools,
        "checkpoint_storage": {"type": "shared_fs", "host_path": str(storage)},
    }
    with RealCluster(folder, config) as cluster:
        found = Launched(cluster, {}, {kind: free_port() for kind in ("command", "generic")})
        for kind in KINDS:
            found.tasks[kind] = launch(found, kind)
            eventually(
                f"the {kind} is told that a machine is launched for it",
                lambda kind=kind: is_told(cluster, kind),
            )
        yield found


def launch(to: Launched, kind: str) -> str:
    """Its id."""
    session, resources = to.cluster.client.session, {"resource_pool": kind, "slots": 1}
    serves: dict[str, Any] = {"resources": resources}
    if kind in to.ports:
        serves["entrypoint"] = ["python3", "-c", SERVE, str(to.ports[kind])]
        serves["environment"] = {"proxy_ports": [{"proxy_port": to.ports[kind]}]}
    with_jupyter = {"resources": resources, "environment": {"python": str(JUPYTER)}}
    match kind:
        case "generic":
            body = {"config": yaml.safe_dump(serves)}
            return str(session.post("/api/v1/generic-tasks", body)["taskId"])
        case "unused":
            config = {**with_jupyter, "idle_timeout": IDLE}
            return str(session.post("/api/v1/notebooks", {"config": config})["notebook"]["id"])
        case "notebook":
            body = {"config": with_jupyter}
            return str(session.post("/api/v1/notebooks", body)["notebook"]["id"])
        case "tensorboard":
            shown = [unstarted_experiment(to.cluster)]
            body = {"config": with_jupyter, "experimentIds": shown}
            return str(session.post("/api/v1/tensorboards", body)["tensorboard"]["id"])
        case _:
            body = {"config": serves}
            return str(session.post(f"/api/v1/{kind}s", body)[kind]["id"])


def unstarted_experiment(cluster: RealCluster) -> int:
    config = {
        "name": "shown",
        "entrypoint": "true",
        "searcher": {"name": "single", "metric": "m"},
        "resources": {"resource_pool": "generic"},
    }
    body = {"config": yaml.safe_dump(config), "activate": False}
    return int(cluster.client.session.post("/api/v1/experiments", body)["experiment"]["id"])


def is_told(cluster: RealCluster, pool: str) -> bool:
    """Whether the one job of a pool reads that it waits for a machine that is being launched."""
    (job,) = cluster.get(f"/api/v1/job-queues?resourcePool={pool}")["jobs"]
    told = rf"launching 1 x embedded-2 in local|{pool}-\w+-0 booting for \d+ s, .+"
    return re.fullmatch(told, job["waitingReason"] or "") is not None


def log(cluster: RealCluster, task_id: str) -> str:
    lines = cluster.client.session.stream(f"/api/v1/tasks/{task_id}/logs", None)
    return "".join(str(line["log"]) + "\n" for line in lines)


def until_ready(launched: Launched, kind: str) -> None:
    task = launched.tasks[kind]

    def is_ready() -> bool:
        found = launched.cluster.get(f"/api/v1/tasks/{task}")["task"]
        assert found["endTime"] is None, log(launched.cluster, task)
        return bool(found["allocations"] and found["allocations"][0]["isReady"])

    eventually(f"the {kind} is ready", is_ready)


@pytest.mark.parametrize("kind", ["command", "generic"])
def test_a_port_is_reached(launched: Launched, kind: str) -> None:
    task = launched.tasks[kind]
    answer = eventually("it serves", lambda: served(launched, kind))
    assert answer == f"{task} {task}.1"


def served(launched: Launched, kind: str) -> str:
    answer = launched.ask(kind)
    return answer.text if answer.status_code == 200 else ""


def test_a_shell_is_opened(launched: Launched) -> None:
    until_ready(launched, "shell")
    shell = launched.tasks["shell"]
    (machine,) = launched.instances("shell")
    said = run_det(launched.cluster, "shell", "open", shell, "echo $DET_TASK_ID on $DET_AGENT_ID")
    assert f"{shell} on {machine['id']}" in said
    assert machine["activity"] == "busy"


def test_a_notebook_is_opened(launched: Launched) -> None:
    until_ready(launched, "notebook")
    notebook = launched.tasks["notebook"]
    address = launched.cluster.get(f"/api/v1/notebooks/{notebook}")["notebook"]["serviceAddress"]
    page = httpx.get(f"{launched.cluster.url}{address}", timeout=PATIENCE_S, follow_redirects=True)
    assert page.url.path == f"/proxy/{notebook}/lab"
    assert "<title>JupyterLab</title>" in page.text


def test_a_tensorboard_is_opened_that_holds_no_slot(launched: Launched) -> None:
    until_ready(launched, "tensorboard")
    assert launched.ask("tensorboard", "data/environment").json()["version"].startswith("2.")
    (machine,) = launched.instances("tensorboard")
    assert machine["activity"] == "busy", "for nothing else would be launched"
    path = f"/api/v1/agents/{machine['id']}"
    assert not any(
        slot["container"] for slot in launched.cluster.get(path)["agent"]["slots"].values()
    )


def test_a_notebook_that_nobody_opens_lets_its_machine_go(launched: Launched) -> None:
    notebook = launched.tasks["unused"]
    shown = eventually("it ended", lambda: ended(launched.cluster, notebook))
    assert shown == f"killed: idle for more than {IDLE}: service is inactive"
    eventually("its machine ended", lambda: launched.is_gone("unused"))


def ended(cluster: RealCluster, notebook: str) -> str:
    return str(cluster.get(f"/api/v1/notebooks/{notebook}")["notebook"]["exitStatus"])


def test_a_paused_task_lets_its_machine_go_and_gets_another(launched: Launched) -> None:
    task, session = launched.tasks["generic"], launched.cluster.client.session
    (first,) = launched.instances("generic")
    session.post(f"/api/v1/tasks/{task}/pause")
    eventually("its machine ended", lambda: launched.is_gone("generic"))
    session.post(f"/api/v1/tasks/{task}/unpause")
    answer = eventually("it serves again", lambda: served(launched, "generic"))
    assert answer == f"{task} {task}.2"
    (second,) = launched.instances("generic")
    assert second["id"] != first["id"]


def test_machines_end_after_their_tasks(launched: Launched) -> None:
    session = launched.cluster.client.session
    for kind in ("command", "shell", "notebook", "tensorboard"):
        session.post(f"/api/v1/{kind}s/{launched.tasks[kind]}/kill")
    session.post(f"/api/v1/tasks/{launched.tasks['generic']}/kill", {})
    for kind in KINDS:
        eventually(f"that of the {kind} ended", lambda kind=kind: launched.is_gone(kind))
    for kind in ("command", "generic", "shell", "notebook", "tensorboard"):
        assert launched.ask(kind).status_code == 404
