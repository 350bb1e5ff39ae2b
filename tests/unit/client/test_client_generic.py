"""`det task create`, `fork`, `config`, `pause`, `unpause` and `kill`: what they send and print; the list of tasks."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from client_scripted_master import WAIT_S, Answer, Asked, ScriptedMaster, free_port, log_in

from tests.fakes.client_cli import det

REPOSITORY = Path(__file__).parents[3]
ID = "0a1b2c3d-0000-4000-8000-000000000001"
CONFIG = {"entrypoint": ["./run"], "resources": {"slots": 2}}
URL = "/api/v1/generic-tasks"
OTHER = "0fffffff-0000-4000-8000-000000000002"
PAUSED: dict[str, Any] = {
    "taskId": ID,
    "name": f"Generic Task {ID}",
    "username": "determined",
    "taskState": "GENERIC_TASK_STATE_PAUSED",
    "resourcePool": "default",
    "slotsNeeded": 2,
    "registeredTime": "2026-01-02T03:04:05Z",
    "endTime": None,
    "parentId": None,
    "exitStatus": "",
    "waitingReason": None,
}
OVER = PAUSED | {
    "taskId": OTHER,
    "name": f"Generic Task {OTHER}",
    "taskState": "GENERIC_TASK_STATE_ERROR",
    "exitStatus": "task failed with exit code 3",
}
COMPLETED: dict[str, Any] = {
    "taskId": ID,
    "taskState": "GENERIC_TASK_STATE_COMPLETED",
    "allocations": [{"state": "STATE_TERMINATED"}],
    "exitStatus": "success",
    "waitingReason": None,
}
ACTIVE = {"taskState": "GENERIC_TASK_STATE_ACTIVE", "exitStatus": ""}
QUEUED = {**ACTIVE, "allocations": [{"state": "STATE_QUEUED"}], "waitingReason": "behind 3 jobs"}
RUNNING = {**ACTIVE, "allocations": [{"state": "STATE_RUNNING"}]}
LINE = b'{"result": {"id": "1", "message": "one\\n"}}\n'


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("POST", URL, {"taskId": ID, "warnings": [], "configWarnings": ["no effect"]})
    master.on("GET", f"/api/v1/tasks/{ID}/config", {"config": json.dumps(CONFIG)})
    master.on("POST", f"/api/v1/tasks/{ID}/(pause|unpause|kill)", {})
    master.on("GET", f"/api/v1/tasks/{ID}/logs", lambda _: (200, LINE))
    master.on("GET", "/api/v1/windlass/generic-tasks", listed)
    states_are(master, {})
    return master


def listed(asked: Asked) -> Answer:
    tasks = [PAUSED, OVER] if asked.query.get("ended") == ["true"] else [PAUSED]
    return 200, {"tasks": tasks, "pagination": {"endIndex": len(tasks), "total": len(tasks)}}


def states_are(master: ScriptedMaster, *changes: dict[str, Any]) -> None:
    """One answer after another; the last one stays."""
    left = [{"task": COMPLETED | change} for change in changes]

    def answer(_: Asked) -> Answer:
        return 200, left.pop(0) if len(left) > 1 else left[0]

    master.on("GET", f"/api/v1/tasks/{ID}", answer)


def test_a_task_is_created_from_its_file(cluster: ScriptedMaster, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "run").write_text("true")
    file = tmp_path / "task.yaml"
    file.write_text("entrypoint: [./run]")
    words = ("-c", str(tmp_path / "files"), "--config", "resources.slots=2", "--project-id", "1")
    tree = ("--fork", OTHER[:8], "--parent", OTHER, "--no-pause")
    done = det(cluster, "task", "create", str(file), *words, *tree)
    assert (done.exit_code, done.stdout) == (0, f"{ID}\n"), done.output
    assert "warning: no effect" in done.stderr
    sent = cluster.calls("POST", URL)[0].body
    assert json.loads(sent["config"]) == CONFIG
    (packed,) = sent["contextDirectory"]
    assert (packed["path"], base64.b64decode(packed["content"])) == ("run", b"true")
    asked = {key: sent[key] for key in sent if key not in ("config", "contextDirectory")}
    assert asked == {
        "projectId": 1,
        "forkedFrom": OTHER,
        "parentId": OTHER,
        "inheritContext": False,
        "noPause": True,
    }


def test_a_fork_sends_no_configuration(cluster: ScriptedMaster) -> None:
    done = det(cluster, "task", "fork", OTHER, "-f")
    assert f"Created task {ID}" in done.stderr
    sent = cluster.calls("POST", URL)[0].body
    assert (sent["config"], sent["forkedFrom"]) == ("", OTHER)
    assert cluster.calls("GET", f"/api/v1/tasks/{ID}/logs")[0].query["follow"] == ["true"]


def test_ports_lead_to_a_task_while_it_is_followed(cluster: ScriptedMaster, tmp_path: Path) -> None:
    file, local = tmp_path / "task.yaml", free_port()
    proxied = {"environment": {"proxy_ports": [{"proxy_port": 5678, "proxy_tcp": True}]}}
    file.write_text(yaml.safe_dump(CONFIG | proxied))
    words = ("task", "create", str(file), "-f", "--publish", f"{local}:5678")
    done = det(cluster, *words)
    assert done.exit_code == 0, done.output
    assert f"127.0.0.1:{local} leads to {ID}:5678" in done.stderr
    file.write_text("resources: {slots: 1}")
    cluster.on("GET", f"/api/v1/tasks/{OTHER}/config", {"config": json.dumps(CONFIG | proxied)})
    done = det(cluster, *words, "--fork", OTHER)
    assert f"leads to {ID}:5678" in done.stderr, "the port is one of the task that it forks"
    for refused, said in (
        (words, "port 5678: the configuration does not name this port"),
        (("task", "create", str(file), "--publish", "1"), "--publish needs --follow"),
        (("task", "create", str(file), "-f", "--publish", "70000"), "is not a port or LOCAL:PORT"),
    ):
        done = det(cluster, *refused)
        assert (done.exit_code, said in done.stderr) == (1, True), done.output
    assert len(cluster.calls("POST", URL)) == 2, "what is refused is not created"


@pytest.mark.slow
def test_what_is_done_to_a_task(cluster: ScriptedMaster) -> None:
    assert yaml.safe_load(det(cluster, "task", "config", ID).stdout) == CONFIG
    assert json.loads(det(cluster, "task", "config", ID, "--json").stdout) == CONFIG
    for words in (("pause",), ("unpause",), ("kill",), ("kill", "--root")):
        done = det(cluster, "task", *words, ID[:8])
        assert (done.exit_code, ID in done.stderr) == (0, True), done.output
    missing = det(cluster, "task", "kill", "ffff")
    assert "generic task 'ffff' not found" in missing.stderr
    calls = cluster.calls("POST", f"/api/v1/tasks/{ID}/.*")
    assert [call.path.rpartition("/")[2] for call in calls] == ["pause", "unpause", "kill", "kill"]
    assert [call.body["killFromRoot"] for call in calls[2:]] == [False, True]


def test_a_task_is_followed_until_it_has_ended_which_the_exit_code_tells(
    cluster: ScriptedMaster, tmp_path: Path
) -> None:
    file = tmp_path / "task.yaml"
    file.write_text("entrypoint: [./run]")
    states_are(cluster, QUEUED, QUEUED, RUNNING, RUNNING, {})
    done = det(cluster, "task", "create", str(file), "-f")
    assert (done.exit_code, done.stdout) == (0, "one\n"), done.output
    said = done.stderr.splitlines()
    assert said.count("Waiting: behind 3 jobs") == 1
    assert said[-1] == f"Task {ID} ended: success"
    failed = {key: OVER[key] for key in ("taskState", "exitStatus")}
    states_are(cluster, RUNNING, failed)
    done = det(cluster, "task", "fork", OTHER, "-f")
    assert (done.exit_code, done.stdout) == (1, "one\n"), done.output
    assert done.stderr.splitlines()[-1] == f"Task {ID} ended: task failed with exit code 3"


def test_an_interrupt_of_a_followed_task_says_how_to_come_back(cluster: ScriptedMaster) -> None:
    states_are(cluster, QUEUED)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "windlass", "-m", cluster.url, "task", "fork", OTHER, "-f"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            cluster.wait_for("GET", f"/api/v1/tasks/{ID}", count=2)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert (
        f"Detached; task {ID} stays in the queue. Show its log: `det task logs -f {ID}`. "
        f"Stop it: `det task kill {ID}`" in err
    )
    assert cluster.calls("POST", ".*/kill") == []


def test_tasks_are_listed_with_their_states_and_those_that_are_paused(
    cluster: ScriptedMaster,
) -> None:
    def rows(*words: str) -> list[tuple[str, ...]]:
        shown = det(cluster, "task", "list", "--csv", *words)
        assert shown.exit_code == 0, shown.output
        names = ("Task ID", "Name", "State", "Waiting for", "Exit status")
        found = csv.DictReader(io.StringIO(shown.stdout))
        return [tuple(row.get(name, "") for name in names) for row in found]

    waiting = {"taskId": OTHER[::-1], "name": "mine", "state": "STATE_QUEUED"}
    summaries = {"a.1": {**waiting, "waitingReason": "behind 3 jobs", "resources": None}}
    cluster.on("GET", "/api/v1/tasks", {"allocationIdToSummary": summaries})
    queued = (OTHER[::-1], "mine", "QUEUED", "behind 3 jobs", "")
    paused = (ID, "Generic Task", "PAUSED", "", "")
    assert rows() == [queued, paused]
    over = (OTHER, "Generic Task", "ERROR", "", "task failed with exit code 3")
    assert rows("-a") == [queued, paused, over]
    document = json.loads(det(cluster, "task", "list", "--json").stdout)
    assert document == [*summaries.values(), PAUSED]
    summaries["b.1"] = {"taskId": ID, "name": f"Generic Task {ID}", "state": "STATE_TERMINATING"}
    assert [row[2] for row in rows()] == ["QUEUED", "TERMINATING"], "each task once"


def test_logs_take_the_first_characters_of_any_task(cluster: ScriptedMaster) -> None:
    trial, notebook = f"7.{OTHER}", OTHER.replace("f", "e")
    cluster.on("GET", "/api/v1/tasks", {"allocationIdToSummary": {"t": {"taskId": trial}}})
    for kind in ("commands", "notebooks", "shells", "tensorboards"):
        cluster.on("GET", f"/api/v1/{kind}", {kind: []})
    cluster.on("GET", "/api/v1/notebooks", {"notebooks": [{"id": notebook}]})
    cluster.on("GET", "/api/v1/tasks/[^/]+/logs", lambda _: (200, LINE))
    for word, id_ in (("7.0f", trial), (notebook[:8], notebook), (OTHER[:8], OTHER)):
        assert det(cluster, "task", "logs", word).stdout == "one\n"
        assert cluster.calls("GET", ".*/logs")[-1].path == f"/api/v1/tasks/{id_}/logs"
    missing = det(cluster, "task", "logs", "dddd")
    assert (missing.exit_code, "task 'dddd' not found" in missing.stderr) == (1, True)
