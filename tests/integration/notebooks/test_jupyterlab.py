"""JupyterLab for real, started by the published client, reached through the master alone."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.sync.client import connect

from tests.jails import open_way_to
from tests.real_cluster import PATIENCE_S, RealCluster, eventually, listening

ROOT = Path(__file__).parents[3]
JUPYTER, DET = ROOT / ".jupyter", ROOT / ".compat/bin/det"

pytestmark = pytest.mark.skipif(
    not (JUPYTER / "bin/jupyter-lab").exists() or not DET.exists(),
    reason="JupyterLab or the published client is not installed: run make test-slow",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    open_way_to(JUPYTER / "bin")
    folder = tmp_path_factory.mktemp("notebooks")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


def det(cluster: RealCluster, *words: str) -> str:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [DET, "-m", cluster.url, *words],
        env={"HOME": str(home), "PATH": os.environ["PATH"], **cluster.login_as()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


class Notebook:
    """One that is ready, as a program with its token uses it."""

    def __init__(self, cluster: RealCluster, *options: str) -> None:
        self.cluster = cluster
        settings = (f"environment.python={JUPYTER}", "resources.slots=0", *options)
        words = [word for setting in settings for word in ("--config", setting)]
        said = det(cluster, "notebook", "start", "--detach", "--no-browser", *words)
        self.id = said.split()[-1]
        eventually("the notebook is ready", self.is_ready)
        self.token = self.look()["serviceAddress"].partition("?token=")[2]

    def look(self) -> dict[str, Any]:
        return dict(self.cluster.client.session.get(f"/api/v1/notebooks/{self.id}")["notebook"])

    def is_ready(self) -> bool:
        task = self.cluster.client.session.get(f"/api/v1/tasks/{self.id}")["task"]
        assert task["endTime"] is None, self.log()
        return bool(task["allocations"] and task["allocations"][0]["isReady"])

    def log(self) -> str:
        lines = self.cluster.client.session.stream(f"/api/v1/tasks/{self.id}/logs", None)
        return "".join(str(line["log"]) for line in lines)

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        parts = urlsplit(self.cluster.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        content = None if body is None else json.dumps(body).encode()
        with closing(connection):
            connection.request(method, f"/proxy/{self.id}/{path}", content, headers)
            answer = connection.getresponse()
            return answer, answer.read()

    def own(self, method: str, path: str, body: Any = None) -> bytes:
        """With its token."""
        answer, content = self.ask(method, path, body, Authorization=f"token {self.token}")
        assert answer.status < 300, (answer.status, content[:300])
        return content


@pytest.fixture(scope="module")
def notebook(cluster: RealCluster) -> Notebook:
    return Notebook(cluster)


def executed(notebook: Notebook, kernel: str, code: str) -> str:
    """What a cell printed."""
    header = {"msg_id": "m", "username": "", "session": "s", "msg_type": "execute_request"}
    message = {
        "header": {**header, "version": "5.3", "date": ""},
        "parent_header": {},
        "metadata": {},
        "channel": "shell",
        "content": {"code": code, "silent": False},
    }
    url = f"{notebook.cluster.url.replace('http', 'ws', 1)}/proxy/{notebook.id}"
    headers = {"Authorization": f"token {notebook.token}"}
    with connect(f"{url}/api/kernels/{kernel}/channels", additional_headers=headers) as socket:
        socket.send(json.dumps(message))
        while True:
            said = json.loads(socket.recv(timeout=PATIENCE_S))
            if said["msg_type"] == "stream":
                return str(said["content"]["text"])
            assert said["msg_type"] != "error", said


def test_a_cell_is_executed(notebook: Notebook) -> None:
    kernel = json.loads(notebook.own("POST", "api/kernels", {"name": "python3"}))["id"]
    code = "import os, sys; print(os.environ['DET_TASK_TYPE'], sys.prefix)"
    assert executed(notebook, kernel, code) == f"NOTEBOOK {JUPYTER}\n"
    port = executed(notebook, kernel, "print(os.environ['NOTEBOOK_PORT'])")
    assert listening(int(port)) == {"127.0.0.1"}, "other machines do not reach it but by the master"
    notebook.own("DELETE", f"api/kernels/{kernel}")


def test_it_begins_in_the_working_directory_and_complains_of_no_option(notebook: Notebook) -> None:
    assert not re.search("preferred_dir.*deprecated", notebook.log())
    page = notebook.own("GET", "lab").decode()
    assert '"preferredPath": "run/determined/workdir"' in page


def test_large_files_go_up_and_down_whole(notebook: Notebook) -> None:
    content = os.urandom(20_000_000)
    path = "run/determined/workdir/large"
    upload = {"type": "file", "format": "base64", "content": b64encode(content).decode()}
    notebook.own("PUT", f"api/contents/{path}", upload)
    back = notebook.own("GET", f"files/{path}")
    assert hashlib.sha256(back).digest() == hashlib.sha256(content).digest()


def test_a_browser_keeps_what_the_address_gave_it(notebook: Notebook) -> None:
    answer, _ = notebook.ask("GET", f"lab?token={notebook.token}")
    assert answer.status == 200
    cookies = SimpleCookie(", ".join(answer.headers.get_all("Set-Cookie") or ()))
    kept = "; ".join(f"{name}={cookie.value}" for name, cookie in cookies.items())
    answer, content = notebook.ask("GET", "api/kernels", Cookie=kept)
    assert (answer.status, json.loads(content)) == (200, [])
    assert cookies["service"]["path"] == f"/proxy/{notebook.id}/"
    assert cookies["service"]["httponly"]


def test_who_has_no_token_or_that_of_another_does_not_get_in(
    cluster: RealCluster, notebook: Notebook
) -> None:
    answer, _ = notebook.ask("GET", "api/kernels")
    assert answer.status == 303
    assert answer.headers["Location"].startswith("/det/login?redirect=")
    stolen = f"{notebook.token[:-1]}{'0' if notebook.token[-1] != '0' else '1'}"
    answer, _ = notebook.ask("GET", "api/kernels", Authorization=f"token {stolen}")
    assert answer.status == 303
    assert notebook.token not in cluster.log(), "no log has it"


def test_it_goes_on_when_the_master_is_started_again(
    cluster: RealCluster, notebook: Notebook
) -> None:
    before = json.loads(notebook.own("GET", "api/status"))["started"]
    cluster.kill_master()
    cluster.start_master()
    eventually("the agent is back", lambda: notebook.ask("GET", "api")[0].status != 502)

    def answers() -> bool:
        answer, _ = notebook.ask("GET", "api/status", Authorization=f"token {notebook.token}")
        return answer.status == 200

    eventually("it is reached again, with the same token", answers)
    assert json.loads(notebook.own("GET", "api/status"))["started"] == before
    det(cluster, "notebook", "kill", notebook.id)
    eventually("it has ended", lambda: notebook.look()["exitStatus"] == "killed by determined")
