"""`det task create`, `fork`, `config`, `pause`, `unpause` and `kill`: what they send and print."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml
from client_scripted_master import ScriptedMaster, free_port, log_in

from tests.fakes.client_cli import det

ID = "0a1b2c3d-0000-4000-8000-000000000001"
CONFIG = {"entrypoint": ["./run"], "resources": {"slots": 2}}
URL = "/api/v1/generic-tasks"


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("POST", URL, {"taskId": ID, "warnings": [], "configWarnings": ["no effect"]})
    master.on("GET", f"/api/v1/tasks/{ID}/config", {"config": json.dumps(CONFIG)})
    master.on("POST", f"/api/v1/tasks/{ID}/(pause|unpause|kill)", {})
    master.on("GET", f"/api/v1/tasks/{ID}/logs", lambda _: (200, b""))
    return master


def test_a_task_is_created_from_its_file(cluster: ScriptedMaster, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "run").write_text("true")
    file = tmp_path / "task.yaml"
    file.write_text("entrypoint: [./run]")
    words = ("-c", str(tmp_path / "files"), "--config", "resources.slots=2", "--project-id", "1")
    tree = ("--fork", "a", "--parent", "b", "--no-pause")
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
        "forkedFrom": "a",
        "parentId": "b",
        "inheritContext": False,
        "noPause": True,
    }


def test_a_fork_sends_no_configuration(cluster: ScriptedMaster) -> None:
    done = det(cluster, "task", "fork", "abc", "-f")
    assert f"Created task {ID}" in done.stderr
    sent = cluster.calls("POST", URL)[0].body
    assert (sent["config"], sent["forkedFrom"]) == ("", "abc")
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
    cluster.on("GET", "/api/v1/tasks/forked/config", {"config": json.dumps(CONFIG | proxied)})
    done = det(cluster, *words, "--fork", "forked")
    assert f"leads to {ID}:5678" in done.stderr, "the port is one of the task that it forks"
    for refused, said in (
        (words, "port 5678: the configuration does not name this port"),
        (("task", "create", str(file), "--publish", "1"), "--publish needs --follow"),
        (("task", "create", str(file), "-f", "--publish", "70000"), "is not a port or LOCAL:PORT"),
    ):
        done = det(cluster, *refused)
        assert (done.exit_code, said in done.stderr) == (1, True), done.output
    assert len(cluster.calls("POST", URL)) == 2, "what is refused is not created"


def test_what_is_done_to_a_task(cluster: ScriptedMaster) -> None:
    assert yaml.safe_load(det(cluster, "task", "config", ID).stdout) == CONFIG
    assert json.loads(det(cluster, "task", "config", ID, "--json").stdout) == CONFIG
    for words in (("pause",), ("unpause",), ("kill",), ("kill", "--root")):
        assert det(cluster, "task", *words, ID).exit_code == 0
    calls = cluster.calls("POST", f"/api/v1/tasks/{ID}/.*")
    assert [call.path.rpartition("/")[2] for call in calls] == ["pause", "unpause", "kill", "kill"]
    assert [call.body["killFromRoot"] for call in calls[2:]] == [False, True]
