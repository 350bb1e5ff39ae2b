"""`det notebook`, `det tensorboard` and the verbs that all kinds have: what they send, print, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from client_scripted_master import WAIT_S, Answer, Asked, ScriptedMaster, log_in

from tests.fakes.client_cli import det
from windlass.cli.interactive.web import has_browser

REPOSITORY = Path(__file__).parents[3]
ID = "0a1b2c3d-0000-4000-8000-000000000001"
KINDS = ["command", "notebook", "shell", "tensorboard"]
TASK: dict[str, Any] = {
    "id": ID,
    "jobId": "0b1b2c3d-0000-4000-8000-000000000003",
    "description": "calm-fox",
    "state": "STATE_RUNNING",
    "username": "determined",
    "resourcePool": "default",
    "exitStatus": "",
    "startTime": "2026-01-02T03:04:05.678901Z",
    "serviceAddress": f"/proxy/{ID}/?token=t",
}
CONFIG = {"resources": {"slots": 2, "priority": 42}}
QUEUED = {"state": "STATE_QUEUED", "waitingReason": "queued behind 3 jobs"}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "determined", "admin": False}})
    master.on("GET", f"/api/v1/tasks/{ID}/logs", lambda _: (200, b""))
    for kind in KINDS:
        answer = {kind: TASK, "config": CONFIG, "warnings": []}
        page = {"endIndex": 1, "total": 1}
        listed = {f"{kind}s": [TASK], "pagination": page}
        master.on("POST", f"/api/v1/{kind}s", answer)
        master.on("GET", f"/api/v1/{kind}s", listed)
        master.on("POST", f"/api/v1/{kind}s/{ID}/(kill|set_priority)", {kind: TASK})
        states_are(master, kind, {})
    ready_is(master, True)
    return master


def states_are(master: ScriptedMaster, kind: str, *changes: dict[str, Any]) -> None:
    """One answer after another; the last one stays."""
    left = [{kind: TASK | change, "config": CONFIG} for change in changes]

    def answer(_: Asked) -> Answer:
        return 200, left.pop(0) if len(left) > 1 else left[0]

    master.on("GET", f"/api/v1/{kind}s/{ID}", answer)


def ready_is(master: ScriptedMaster, *ready: bool) -> None:
    left = list(ready)

    def answer(_: Asked) -> Answer:
        now = left.pop(0) if len(left) > 1 else left[0]
        return 200, {"task": {"taskId": ID, "allocations": [{"isReady": now}]}}

    master.on("GET", f"/api/v1/tasks/{ID}", answer)


def sent(master: ScriptedMaster, kind: str) -> dict[str, Any]:
    return dict(master.calls("POST", f"/api/v1/{kind}s")[0].body)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_same_verbs(kind: str, cluster: ScriptedMaster) -> None:
    assert det(cluster, kind, "list", "-q").stdout == f"{ID}\n"
    said = det(cluster, kind, "describe", "0a1b").stdout
    assert "RUNNING" in said
    assert ID in said
    assert yaml.safe_load(det(cluster, kind, "config", ID).stdout) == CONFIG
    assert det(cluster, kind, "logs", ID).exit_code == 0
    assert det(cluster, kind, "set", "priority", ID, "7").exit_code == 0
    assert det(cluster, kind, "kill", "0a1b2c3d").exit_code == 0
    assert [asked.path for asked in cluster.calls("POST", f"/api/v1/{kind}s/.*")] == [
        f"/api/v1/{kind}s/{ID}/set_priority",
        f"/api/v1/{kind}s/{ID}/kill",
    ]
    missing = det(cluster, kind, "describe", "ffff")
    word = "cmd" if kind == "command" else kind
    assert missing.exit_code == 1
    assert f"see `det {word} list -a`" in missing.stderr
    other = next(one for one in KINDS if one != kind)
    page = {"endIndex": 0, "total": 0}
    cluster.on("GET", f"/api/v1/{kind}s", {f"{kind}s": [], "pagination": page})
    mistaken = det(cluster, kind, "describe", "0a1b")
    assert f"'0a1b' not found: it is a {other}, see `det {other}`" in mistaken.stderr


def test_lists_of_one_workspace(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/api/v1/workspaces", {"workspaces": [{"id": 1, "name": "Uncategorized"}]})
    assert det(cluster, "notebook", "list", "-w", "Uncategorized").exit_code == 0
    assert cluster.calls("GET", "/api/v1/notebooks")[0].query["workspaceId"] == ["1"]
    refused = det(cluster, "notebook", "start", "-w", "labs")
    assert "workspace 'labs' not found" in refused.stderr
    assert cluster.calls("POST", "/api/v1/notebooks") == []


@pytest.mark.parametrize(
    ("kind", "title"), [("notebook", "Notebook"), ("tensorboard", "TensorBoard")]
)
def test_what_is_used_in_a_browser_prints_its_url_once_it_is_ready(
    kind: str, title: str, cluster: ScriptedMaster
) -> None:
    states_are(cluster, kind, QUEUED, {"state": "STATE_PULLING"}, {})
    ready_is(cluster, False, True)
    entry = b'{"result": {"id": "1", "log": "pulling layer 2 of 9", "message": "x"}}\n'
    cluster.on("GET", f"/api/v1/tasks/{ID}/logs", lambda _: (200, entry))
    ids = ["12"] if kind == "tensorboard" else []
    result = det(cluster, kind, "start", *ids)
    assert (result.exit_code, result.stdout) == (
        0,
        f"{cluster.url}/proxy/{ID}/?token=t\n",
    ), result.output
    said = result.stderr.splitlines()
    for line in (
        f"{title}  QUEUED  waiting: queued behind 3 jobs",
        f"{title}  PULLING  pulling layer 2 of 9",
        f"{title}  RUNNING  pulling layer 2 of 9",
    ):
        assert said.count(line) == 1, said
    assert said[-1] == f"{title} {ID} is ready. Stop it: `det {kind} kill {ID}`"
    again = det(cluster, kind, "open", "0a1b")
    assert (again.exit_code, again.stdout) == (0, result.stdout)


def test_what_has_ended_has_no_address(cluster: ScriptedMaster) -> None:
    assert f"/proxy/{ID}/" in det(cluster, "notebook", "describe", ID).stdout
    states_are(cluster, "notebook", {"state": "STATE_TERMINATED", "exitStatus": "killed"})
    ended = det(cluster, "notebook", "describe", ID).stdout
    assert "killed" in ended
    assert "/proxy/" not in ended


def test_a_notebook_of_somebody_else_is_not_opened(cluster: ScriptedMaster) -> None:
    states_are(cluster, "notebook", {"username": "grace", "serviceAddress": f"/proxy/{ID}/"})
    result = det(cluster, "notebook", "open", ID)
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        f"Notebook {ID} is one of grace, who alone, beside administrators, may open it"
        in result.stderr
    )
    assert "is ready" not in result.stderr
    states_are(cluster, "tensorboard", {"username": "grace", "serviceAddress": f"/proxy/{ID}/"})
    board = det(cluster, "tensorboard", "open", ID)
    assert board.stdout == f"{cluster.url}/proxy/{ID}/\n", "whoever sees one may open it"


def test_what_ends_before_it_serves_says_why(cluster: ScriptedMaster) -> None:
    states_are(cluster, "notebook", {"state": "STATE_TERMINATED", "exitStatus": "task failed"})
    entry = b'{"result": {"id": "1", "message": "JupyterLab is not installed\\n"}}\n'
    cluster.on("GET", f"/api/v1/tasks/{ID}/logs", lambda _: (200, entry))
    result = det(cluster, "notebook", "open", ID)
    assert (result.exit_code, result.stdout) == (1, ""), "only its URL would be there"
    assert result.stderr.splitlines() == [
        "JupyterLab is not installed",
        f"Notebook {ID} has ended: task failed",
    ]


def test_detached_only_the_id_is_printed(cluster: ScriptedMaster) -> None:
    result = det(cluster, "notebook", "start", "-d", "--config", "idle_timeout=30m", "--no-browser")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{ID}\n", "")
    assert sent(cluster, "notebook") == {"config": {"idle_timeout": "30m"}, "files": []}


def test_a_preview_starts_nothing(cluster: ScriptedMaster) -> None:
    result = det(cluster, "notebook", "start", "--preview", "--template", "small")
    assert yaml.safe_load(result.stdout) == CONFIG
    assert sent(cluster, "notebook") == {
        "config": {},
        "files": [],
        "preview": True,
        "templateName": "small",
    }
    assert cluster.calls("GET", f"/api/v1/notebooks/{ID}") == []


def test_a_tensorboard_is_of_experiments_or_trials(cluster: ScriptedMaster) -> None:
    assert det(cluster, "tensorboard", "start", "-d", "12", "13", "-t", "101").exit_code == 0
    body = sent(cluster, "tensorboard")
    assert (body["experimentIds"], body["trialIds"]) == ([12, 13], [101])
    refused = det(cluster, "tensorboard", "start")
    assert refused.exit_code == 1
    assert "Nothing to show: give ids of experiments" in refused.stderr


def test_an_interrupt_while_it_starts_leaves_it_running_and_says_how_to_end_it(
    cluster: ScriptedMaster,
) -> None:
    states_are(cluster, "notebook", QUEUED)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "windlass", "-m", cluster.url, "notebook", "open", ID],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            cluster.wait_for("GET", f"/api/v1/notebooks/{ID}", count=2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert f"Detached; notebook {ID} stays in the queue. " in err
    assert f"Open it: `det notebook open {ID}`. Stop it: `det notebook kill {ID}`" in err
    assert "Traceback" not in err
    assert cluster.calls("POST", ".*/kill") == []


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}, "darwin", False),
    ],
)
def test_where_a_browser_is_opened(environ: dict[str, str], platform: str, expected: bool) -> None:
    assert has_browser(environ, platform) is expected
