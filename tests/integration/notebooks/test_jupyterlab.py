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

from tests.interactive import execution
from tests.jails import open_way_to, works_or_skip
from tests.real_cluster import PATIENCE_S, RealCluster, eventually, listening

ROOT = Path(__file__).parents[3]
JUPYTER, DET = ROOT / ".jupyter", ROOT / ".compat/bin/det"
IDLE = "15s"
WORK_DIR = "run/determined/workdir"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (JUPYTER / "bin/jupyter-lab").exists() or not DET.exists(),
        reason="JupyterLab or the published client is not installed: run make test-slow",
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    open_way_to(JUPYTER / "bin")
    folder = tmp_path_factory.mktemp("notebooks")
    pools = [{"pool_name": "default"}]
    config = {"resource_pools": pools, "allowed_host_paths": [str(JUPYTER), str(folder / "kept")]}
    with RealCluster(folder, config) as cluster:
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
    """One as a program with its token uses it."""

    def __init__(self, cluster: RealCluster, *options: str, mount: str = "") -> None:
        self.cluster = cluster
        settings = (f"environment.python={JUPYTER}", "resources.slots=0", *options)
        words = [word for setting in settings for word in ("--config", setting)]
        words += ["-v", mount] if mount else []
        said = det(cluster, "notebook", "start", "--detach", "--no-browser", *words)
        self.id = said.split()[-1]
        self.token = ""

    def ready(self) -> Notebook:
        eventually("the notebook is ready", self.is_ready)
        self.token = self.look()["serviceAddress"].partition("?token=")[2]
        return self

    def end(self) -> None:
        det(self.cluster, "notebook", "kill", self.id)
        eventually("it has ended", lambda: self.look()["exitStatus"] == "killed by determined")

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
    return Notebook(cluster).ready()


def in_own_folder(cluster: RealCluster) -> Notebook:
    """As docs/notebooks.md says, to keep everything."""
    kept = cluster.folder / "kept"
    works_or_skip("namespace", cluster.folder / "probe")
    kept.mkdir(exist_ok=True)
    open_way_to(kept).chmod(0o777)  # whoever the task runs as
    variables = 'environment.environment_variables=["JUPYTER_CONFIG_DIR=/data/.jupyter"]'
    return Notebook(cluster, "work_dir=/data", variables, mount=f"{kept}:/data").ready()


@pytest.fixture(scope="module")
def another(cluster: RealCluster, notebook: Notebook) -> Notebook:
    return in_own_folder(cluster)


def kernel_of(notebook: Notebook) -> str:
    return str(json.loads(notebook.own("POST", "api/kernels", {"name": "python3"}))["id"])


def executed(notebook: Notebook, kernel: str, code: str) -> str:
    """What a cell printed first."""
    url = f"{notebook.cluster.url.replace('http', 'ws', 1)}/proxy/{notebook.id}"
    headers = {"Authorization": f"token {notebook.token}"}
    with connect(f"{url}/api/kernels/{kernel}/channels", additional_headers=headers) as socket:
        socket.send(json.dumps(execution(code)))
        while True:
            said = json.loads(socket.recv(timeout=PATIENCE_S))
            if said["msg_type"] == "stream":
                return str(said["content"]["text"])
            assert said["msg_type"] != "error", said


def test_a_cell_is_executed(notebook: Notebook) -> None:
    kernel = kernel_of(notebook)
    code = "import os, sys; print(os.environ['DET_TASK_TYPE'], sys.prefix)"
    assert executed(notebook, kernel, code) == f"NOTEBOOK {JUPYTER}\n"
    port = executed(notebook, kernel, "print(os.environ['NOTEBOOK_PORT'])")
    assert listening(int(port)) == {"127.0.0.1"}, "other machines do not reach it but by the master"
    notebook.own("DELETE", f"api/kernels/{kernel}")


def test_it_begins_in_the_working_directory_and_complains_of_no_option(notebook: Notebook) -> None:
    assert not re.search("preferred_dir.*deprecated", notebook.log())
    page = notebook.own("GET", "lab").decode()
    assert f'"preferredPath": "{WORK_DIR}"' in page


def test_large_files_go_up_and_down_whole(notebook: Notebook) -> None:
    content = os.urandom(20_000_000)
    path = f"{WORK_DIR}/large"
    upload = {"type": "file", "format": "base64", "content": b64encode(content).decode()}
    notebook.own("PUT", f"api/contents/{path}", upload)
    back = notebook.own("GET", f"files/{path}")
    assert hashlib.sha256(back).digest() == hashlib.sha256(content).digest()


def cookies_of(notebook: Notebook) -> SimpleCookie:
    """What a browser has after the address of the notebook."""
    answer, _ = notebook.ask("GET", f"lab?token={notebook.token}")
    assert answer.status == 200
    return SimpleCookie(", ".join(answer.headers.get_all("Set-Cookie") or ()))


def sent(cookies: SimpleCookie) -> str:
    return "; ".join(f"{name}={cookie.value}" for name, cookie in cookies.items())


def test_a_browser_keeps_what_the_address_gave_it(notebook: Notebook) -> None:
    cookies = cookies_of(notebook)
    answer, content = notebook.ask("GET", "api/kernels", Cookie=sent(cookies))
    assert (answer.status, json.loads(content)) == (200, [])
    assert cookies["service"]["path"] == f"/proxy/{notebook.id}/"
    assert cookies["service"]["httponly"]


def test_who_has_no_token_or_that_of_another_does_not_get_in(
    cluster: RealCluster, notebook: Notebook, another: Notebook
) -> None:
    kept = sent(cookies_of(another))
    asked = (
        notebook.ask("GET", "api/kernels"),
        notebook.ask("GET", f"api/kernels?token={another.token}"),
        notebook.ask("GET", "api/kernels", Authorization=f"token {another.token}"),
        notebook.ask("GET", "api/kernels", Cookie=kept),
    )
    for answer, _ in asked:
        assert answer.status == 303
        assert answer.headers["Location"].startswith("/det/login?redirect=")
    assert another.own("GET", "api/kernels") == b"[]", "its own it opens"
    for secret in (notebook.token, another.token):
        assert secret not in cluster.log(), "no log has it"


def test_files_and_settings_stay_in_a_folder_of_the_user(
    cluster: RealCluster, another: Notebook
) -> None:
    file = {"type": "file", "format": "text", "content": "kept"}
    another.own("PUT", "api/contents/data/mine.txt", file)
    theme, settings = (
        '{"theme": "JupyterLab Dark"}',
        "lab/api/settings/@jupyterlab/apputils-extension",
    )
    another.own("PUT", f"{settings}:themes", {"raw": theme})
    another.end()
    again = in_own_folder(cluster)
    assert json.loads(again.own("GET", "api/contents/data/mine.txt"))["content"] == "kept"
    assert json.loads(again.own("GET", f"{settings}:themes"))["raw"] == theme
    assert '"preferredPath": "data"' in again.own("GET", "lab").decode()
    names = [one["name"] for one in json.loads(again.own("GET", "api/contents/data"))["content"]]
    assert "README.ipynb" not in names, "the folder is the user's"
    again.end()


def test_each_kind_of_idleness_ends_a_notebook_but_no_work(cluster: RealCluster) -> None:
    unused, unwatched, working = (
        Notebook(cluster, f"idle_timeout={IDLE}", f"notebook_idle_type={kind}")
        for kind in ("kernels_or_terminals", "kernel_connections", "activity")
    )
    work = "import os, time\nprint('begun', flush=True)\n"
    work += "while not os.path.exists('enough'): time.sleep(0.1)"
    assert executed(working.ready(), kernel_of(working), work) == "begun\n"
    kernel_of(unwatched.ready())
    shown = {"path": f"{WORK_DIR}/README.ipynb", "name": "", "type": "notebook"}
    unused.ready().own("POST", "api/sessions", shown | {"kernel": {"name": "python3"}})
    for notebook in (unused, unwatched):
        is_ended_as_idle(notebook)
    assert working.is_ready(), "it was used before the others, and computes"
    working.own("PUT", f"api/contents/{WORK_DIR}/enough", {"type": "file"})
    is_ended_as_idle(working)


def is_ended_as_idle(notebook: Notebook) -> None:
    reason = f"idle for more than {IDLE}: service is inactive"
    eventually("it is ended", lambda: notebook.look()["exitStatus"] == f"killed: {reason}")
    assert reason in notebook.log()


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
    notebook.end()
