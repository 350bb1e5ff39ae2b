"""Interactive tasks of each kind as a user's program has them: launched, awaited, asked through the master's proxy."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import yaml
from websockets.sync.client import connect

from tests.jails import open_way_to
from tests.real_cluster import PATIENCE_S, RealCluster, eventually

JUPYTER = Path(__file__).parents[1] / ".jupyter"
PACKAGES = JUPYTER / "lib/python3.11/site-packages"
"""JupyterLab, TensorBoard, and what they import."""

needs_jupyter = pytest.mark.skipif(
    not (JUPYTER / "bin/tensorboard").exists(),
    reason="JupyterLab and TensorBoard are not installed: run make test-slow",
)

SERVE = """
import http.server, os, sys

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = os.environ["DET_ALLOCATION_ID"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

place = (os.environ.get("WINDLASS_LISTEN_ADDRESS", "127.0.0.1"), int(sys.argv[1]))
http.server.HTTPServer(place, Answer).serve_forever()
"""
"""A program that answers with its allocation on a port, its argument."""


def serving(port: int) -> dict[str, Any]:
    """Of the configuration of a command or generic task that serves it."""
    environment = {"proxy_ports": [{"proxy_port": port}]}
    return {"entrypoint": ["python3", "-c", SERVE, str(port)], "environment": environment}


def launch(cluster: RealCluster, kind: str, config: dict[str, Any], **request: Any) -> str:
    """The id of a new task. `request`: what it is asked with besides its configuration."""
    session = cluster.client.session
    if kind == "generic":
        body = {"config": yaml.safe_dump(config), **request}
        return str(session.post("/api/v1/generic-tasks", body)["taskId"])
    reply = session.post(f"/api/v1/{kind}s", {"config": config, **request})
    return str(reply[kind]["id"])


def kill(cluster: RealCluster, kind: str, task_id: str) -> None:
    path = "tasks" if kind == "generic" else f"{kind}s"
    cluster.client.session.post(f"/api/v1/{path}/{task_id}/kill", {})


def task_log(cluster: RealCluster, task_id: str) -> str:
    lines = cluster.client.session.stream(f"/api/v1/tasks/{task_id}/logs", None)
    return "".join(str(line["log"]) + "\n" for line in lines)


def until_ready(cluster: RealCluster, task_id: str) -> None:
    def is_ready() -> bool:
        task = cluster.get(f"/api/v1/tasks/{task_id}")["task"]
        assert task["endTime"] is None, task_log(cluster, task_id)
        return bool(task["allocations"] and task["allocations"][0]["isReady"])

    eventually(f"{task_id} is ready", is_ready)


def ended(cluster: RealCluster, task_id: str) -> str:
    """The log of a task that is over."""
    path = f"/api/v1/tasks/{task_id}"
    eventually(f"{task_id} is over", lambda: cluster.get(path)["task"]["endTime"])
    return task_log(cluster, task_id)


def ask(cluster: RealCluster, service: str, path: str = "") -> httpx.Response:
    """By somebody who has logged in to the master."""
    login = {"Authorization": f"Bearer {cluster.client.session.token}"}
    return httpx.get(f"{cluster.url}/proxy/{service}/{path}", headers=login, timeout=PATIENCE_S)


def answer(cluster: RealCluster, service: str) -> str:
    """What it serves, once it does."""

    def look() -> str:
        with suppress(httpx.HTTPError):
            reply = ask(cluster, service)
            return reply.text if reply.status_code == 200 else ""
        return ""

    return eventually(f"{service} answers", look)


def unstarted_experiment(cluster: RealCluster, storage: Path, **config: Any) -> int:
    """One that a TensorBoard can show, with a run in it."""
    settings = {
        "name": "shown",
        "entrypoint": "true",
        "searcher": {"name": "single", "metric": "m"},
        "checkpoint_storage": {"type": "shared_fs", "host_path": str(storage)},
        **config,
    }
    body = {"config": yaml.safe_dump(settings), "activate": False}
    reply = cluster.client.session.post("/api/v1/experiments", body)
    number = int(reply["experiment"]["id"])
    of_cluster = storage / str(cluster.get("/api/v1/master")["clusterId"])
    run = of_cluster / "tensorboard" / run_of(number)
    run.mkdir(parents=True)
    (run / "events.out.tfevents.1").touch()
    open_way_to(run)
    return number


def shown_runs(cluster: RealCluster, tensorboard: str) -> list[str]:
    """What its page would list, once there is something."""
    until_ready(cluster, tensorboard)
    runs = eventually("it has runs", lambda: ask(cluster, tensorboard, "data/runs").json())
    return [str(run) for run in runs]


def run_of(experiment: int) -> str:
    """What a TensorBoard calls the run of an unstarted experiment."""
    return f"experiment/{experiment}/trial/1"


class Notebook:
    """One that is ready, as whoever has its address uses it."""

    def __init__(self, cluster: RealCluster, notebook_id: str) -> None:
        until_ready(cluster, notebook_id)
        shown = cluster.get(f"/api/v1/notebooks/{notebook_id}")["notebook"]
        path, _, query = str(shown["serviceAddress"]).partition("?")
        self._url = f"{cluster.url}{path}"
        self._login = {"Authorization": f"token {query.removeprefix('token=')}"}

    def page(self) -> str:
        return httpx.get(f"{self._url}lab", headers=self._login, timeout=PATIENCE_S).text

    def executed(self, code: str) -> str:
        """What it printed, in a kernel of its own."""
        made = httpx.post(
            f"{self._url}api/kernels",
            json={"name": "python3"},
            headers=self._login,
            timeout=PATIENCE_S,
        )
        kernel = made.raise_for_status().json()["id"]
        url = f"{self._url.replace('http', 'ws', 1)}api/kernels/{kernel}/channels"
        with connect(url, additional_headers=self._login, open_timeout=PATIENCE_S) as socket:
            socket.send(json.dumps(execution(code)))
            while True:
                said = json.loads(socket.recv(timeout=PATIENCE_S))
                assert said["msg_type"] != "error", said
                if said["msg_type"] == "stream":
                    return str(said["content"]["text"])


def execution(code: str) -> dict[str, Any]:
    """What a kernel is sent."""
    header = {"msg_id": "m", "username": "", "session": "s", "msg_type": "execute_request"}
    return {
        "header": {**header, "version": "5.3", "date": ""},
        "parent_header": {},
        "metadata": {},
        "channel": "shell",
        "content": {"code": code, "silent": False},
    }
