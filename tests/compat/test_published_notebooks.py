"""Each verb of `det notebook`, and of `det shell` what both have, of the published client, unmodified.

Most of these notebooks get no further than their startup hook: they need no JupyterLab.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.interactive import JUPYTER, needs_jupyter
from tests.jails import open_way_to, virtualenv
from tests.published import COMPAT, PublishedDet, needs_published, run_det
from tests.real_cluster import PATIENCE_S, RealCluster, eventually

pytestmark = needs_published
AUX = ("--config", "resources.slots=0")
NOWHERE = ("--config", "resources.resource_pool=empty")
"""It has no agent: what is launched there waits for one, as this cluster refuses nothing that may fit one day."""
EXCEEDED = "Warning: The requested job requires more slots than currently available."
COLUMNS = ["id", "username", "description", "state", "exitStatus", "resourcePool", "workspaceName"]
HOOK = 'cat a.txt more/b.txt /seen/c.txt; echo "it says $SAID"; sleep 600\n'

both = pytest.mark.parametrize("noun", ["notebook", "shell"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    open_way_to(JUPYTER / "bin")
    pools = [{"pool_name": name} for name in ("default", "empty")]
    config = {"resource_pools": pools, "launch_error": False}
    with RealCluster(tmp_path_factory.mktemp("notebook-verbs"), config) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


@pytest.fixture(scope="module")
def det(cluster: RealCluster) -> Iterator[PublishedDet]:
    with PublishedDet(cluster) as det:
        yield det


@pytest.fixture(scope="module")
def admin(cluster: RealCluster) -> Iterator[PublishedDet]:
    with PublishedDet(cluster, "admin") as admin:
        yield admin


def listed(det: PublishedDet, noun: str, *words: str) -> list[dict[str, Any]]:
    return list(json.loads(det(noun, "list", *words, "--json")))


def until_over(cluster: RealCluster, noun: str, task_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = cluster.get(f"/api/v1/{noun}s/{task_id}")[noun]
        return dict(found) if found["exitStatus"] else None

    return eventually(f"{noun} {task_id} is over", look)


@both
def test_what_is_given_at_its_start_is_there(
    cluster: RealCluster, det: PublishedDet, noun: str, tmp_path: Path
) -> None:
    context, more, mounted = tmp_path / "context", tmp_path / "more", tmp_path / "mounted"
    for folder, name in ((context, "a"), (more, "b"), (mounted, "c")):
        folder.mkdir()
        (folder / f"{name}.txt").write_text(f"this is {name}\n")
    open_way_to(mounted)
    (context / "startup-hook.sh").write_text(HOOK)
    file = tmp_path / "config.yaml"
    environment = {"environment_variables": ["SAID=by the file"]}
    file.write_text(yaml.safe_dump({"description": "of the file", "environment": environment}))
    task = det(
        *(noun, "start", "--detach", *AUX, "--config-file", str(file)),
        *("--config", "description=of the words", "-w", "Uncategorized"),
        *("-c", str(context), "-i", str(more), "-v", f"{mounted}:/seen"),
    ).split()[-1]
    said = ("this is a", "this is b", "this is c", "it says by the file")

    def is_said() -> bool:
        log = det(noun, "logs", task[:8])
        return all(f"|| {line}\n" in log for line in said)

    eventually("its hook says what it has", is_said)
    *lines, _ = det(noun, "logs", "--json", task).partition("Task log stream ended")
    assert f'"log": "{said[-1]}' in lines[0]
    assert said[-1] in det(noun, "logs", "--tail", "1", task)
    config = yaml.safe_load(det(noun, "config", task[:8]))
    assert config["description"] == "of the words"
    assert config["resources"]["slots"] == 0
    (mount,) = config["bind_mounts"]
    assert (mount["host_path"], mount["container_path"]) == (str(mounted), "/seen")

    assert f"Set priority of {noun} {task} to 7" in det(noun, "set", "priority", task[:8], "7")
    assert yaml.safe_load(det(noun, "config", task))["resources"]["priority"] == 7
    assert "Skipping: " in det(noun, "set", "priority", task, "100")
    assert yaml.safe_load(det(noun, "config", task))["resources"]["priority"] == 7

    assert det(noun, "kill", task[:8]) == f"Killed {noun} {task}\n"
    assert until_over(cluster, noun, task)["exitStatus"] == "killed by determined"
    followed = det(noun, "logs", "-f", task)
    assert f"|| {said[0]}\n" in followed
    assert f"Task log stream ended. To reopen log stream, run: det task logs -f {task}" in followed


@both
def test_lists_are_of_oneself_of_all_and_of_a_workspace(
    cluster: RealCluster, det: PublishedDet, admin: PublishedDet, noun: str
) -> None:
    own = det(noun, "start", *NOWHERE, "--detach", "--config", "description=Zebra").strip()
    other = admin(noun, "start", *NOWHERE, "--detach", "--config", "description=Ape").strip()
    assert own in det(noun, "list")
    assert other not in det(noun, "list")
    assert {own, other} <= set(det(noun, "list", "-a", "-q").split())
    everybody = {one["id"]: one for one in listed(det, noun, "-a")}
    shown = everybody[other]
    assert [shown[name] for name in COLUMNS[1:]] == [
        *("admin", "Ape", "QUEUED", ""),
        *("empty", "Uncategorized"),
    ]
    (row,) = (
        row for row in csv.DictReader(io.StringIO(det(noun, "list", "--csv"))) if row["id"] == own
    )
    assert list(row) == COLUMNS
    assert (row["description"], row["state"]) == ("Zebra", "QUEUED")
    names = [one["description"] for one in listed(det, noun, "-a", "--sort-by", "description")]
    assert names.index("Ape") < names.index("Zebra")
    words = ("-a", "--sort-by", "description", "--order-by", "desc")
    assert [one["description"] for one in listed(det, noun, *words)] == names[::-1]
    assert own in {one["id"] for one in listed(det, noun, "-w", "Uncategorized")}
    assert "nowhere" in failed(det, noun, "list", "-w", "nowhere")
    ids = {one["username"]: one["userId"] for one in everybody.values()}
    for query in ("users=admin", f"userIds={ids['admin']}", "users=admin&workspaceId=1"):
        found = cluster.get(f"/api/v1/{noun}s?{query}")[f"{noun}s"]
        assert {one["id"] for one in found} == {k for k in everybody if k == other}, query
    admin(noun, "kill", own, other)


def failed(det: PublishedDet, *words: str) -> str:
    done = det.run(*words)
    assert done["code"] != 0, done
    assert "Traceback" not in done["said"] + done["crash"], done
    return str(done["said"])


@both
def test_ended_ones_stay_and_are_killed_again(
    cluster: RealCluster, det: PublishedDet, noun: str
) -> None:
    first, second = (det(noun, "start", *NOWHERE, "--detach").strip() for _ in range(2))
    unknown = "00000000-0000-0000-0000-000000000000"
    said = failed(det, noun, "kill", unknown, first)
    assert f"Cowardly not killing {first}" in said
    assert unknown in said
    said = det(noun, "kill", "--force", unknown, first, second)
    assert "Skipping: " in said
    assert said.endswith(f"Killed {noun} {first}\nKilled {noun} {second}\n")
    until_over(cluster, noun, first)
    assert det(noun, "kill", first) == f"Killed {noun} {first}\n"
    shown = {one["id"]: one for one in listed(det, noun)}[first]
    assert shown["state"] == "TERMINATED"
    assert shown["exitStatus"].endswith("by determined before it started")
    assert shown["endTime"]
    assert yaml.safe_load(det(noun, "config", first))["resources"]["resource_pool"] == "empty"
    assert "has already ended" in det(noun, "set", "priority", first, "7")
    for verb in ("config", "logs"):
        assert "partial UUID 'zzzz' not found" in failed(det, noun, verb, "zzzz")


def test_a_preview_shows_the_configuration_and_starts_nothing(
    cluster: RealCluster, det: PublishedDet
) -> None:
    before = cluster.get("/api/v1/notebooks")["notebooks"]
    words = ("--config", "idle_timeout=30m", "-v", "/data:/seen", *AUX)
    shown = yaml.safe_load(det("notebook", "start", "--preview", *words))
    assert shown["description"].startswith("JupyterLab (")
    assert shown["idle_timeout"] == "30m"
    assert shown["resources"]["slots"] == 0
    assert shown["bind_mounts"][0]["container_path"] == "/seen"
    assert cluster.get("/api/v1/notebooks")["notebooks"] == before
    started = det("notebook", "start", "--detach", *AUX).strip()
    assert yaml.safe_load(det("notebook", "config", started)).keys() == shown.keys()
    det("notebook", "kill", started)


def test_more_slots_than_there_are_now_lead_to_a_warning(
    cluster: RealCluster, det: PublishedDet, tmp_path: Path
) -> None:
    known = {one["id"] for one in listed(det, "notebook")}
    words = ("notebook", "start", "--no-browser", *NOWHERE)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **cluster.login_as()}
    with subprocess.Popen(
        [COMPAT / "det", "-m", cluster.url, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stderr is not None
        warned = program.stderr.readline()
        (started,) = {one["id"] for one in listed(det, "notebook")} - known
        det("notebook", "kill", started)
        said, _ = program.communicate(timeout=PATIENCE_S)
    assert EXCEEDED in warned
    assert f"Launched notebook (id: {started}, name: JupyterLab (" in said
    assert "task has been terminated" in said
    file = tmp_path / "task.yaml"
    file.write_text(
        yaml.safe_dump({"entrypoint": ["true"], "resources": {"resource_pool": "empty"}})
    )
    created = det("task", "create", str(file))
    assert EXCEEDED in created
    det("task", "kill", created.split()[2])


def test_without_jupyterlab_it_ends_with_the_way_out(det: PublishedDet, tmp_path: Path) -> None:
    python = ("--config", f"environment.python={virtualenv(tmp_path / 'venv')}")
    said = failed(det, "notebook", "start", "--no-browser", *AUX, *python)
    assert "task has been terminated" in said
    started = said.split("(id: ")[1].split(",")[0]
    log = det("notebook", "logs", started)
    assert "JupyterLab is not installed for" in log
    assert "name a Python that has it in environment.python" in log
    (shown,) = (one for one in listed(det, "notebook") if one["id"] == started)
    assert shown["state"] == "TERMINATED"
    assert "exit code 1: JupyterLab is not installed for" in shown["exitStatus"]


@needs_jupyter
def test_it_says_where_it_is_once_it_is_ready(cluster: RealCluster, det: PublishedDet) -> None:
    python = ("--config", f"environment.python={JUPYTER}")
    said = det("notebook", "start", "--no-browser", *AUX, *python)
    started = said.split("(id: ")[1].split(",")[0]
    page = f"{cluster.url}/det/interactive/{started}/jupyter-lab/"
    (line,) = (line for line in said.splitlines() if "is running at" in line)
    assert line.startswith(f"Jupyter Notebook is running at: {page}JupyterLab%20%28")
    assert line.endswith("?currentSlotsExceeded=false")
    (address,) = (
        line.partition("Connect to remote Jupyter server: ")[2]
        for line in said.splitlines()
        if "remote Jupyter server" in line
    )
    url, _, token = address.partition("?token=")
    assert url == f"{cluster.url}/proxy/{started}/"
    answer = httpx2.get(f"{url}api/status", headers={"Authorization": f"token {token}"})
    assert answer.status_code == 200
    assert det("notebook", "open", started[:8]) == ""
    det("notebook", "kill", started)
    until_over(cluster, "notebook", started)
    assert "Notebook has ended" in det.run("notebook", "open", started)["said"]


def test_a_shell_is_opened_at_its_start(cluster: RealCluster) -> None:
    words = (*AUX, "--show-ssh-command", "echo it is $DET_TASK_ID")
    said = run_det(cluster, "shell", "start", *words)
    started = said.split("(id: ")[1].split(",")[0]
    assert f"it is {started}" in said
    assert f"@{started}" in next(line for line in said.splitlines() if line.startswith("ssh -o"))
    assert f"To reconnect, run: det shell open {started}" in said
    run_det(cluster, "shell", "kill", started)
