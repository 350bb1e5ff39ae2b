"""`det webhook`: what it sends and what it prints."""

from __future__ import annotations

from typing import Any

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

W = "/api/v1/webhooks"
HOOK: dict[str, Any] = {
    "id": 3,
    "name": "chat",
    "url": "https://chat/x",
    "webhookType": "WEBHOOK_TYPE_SLACK",
    "mode": "WEBHOOK_MODE_SPECIFIC",
    "workspaceId": 7,
    "triggers": [
        {
            "id": 1,
            "webhookId": 3,
            "triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE",
            "condition": {"state": "ERROR"},
        }
    ],
}
CALL: dict[str, Any] = {
    "eventId": "e-1",
    "eventType": "CUSTOM",
    "condition": {},
    "experimentId": 9,
    "createdAt": "2026-01-01T00:00:00Z",
    "attempts": 2,
    "lastResult": "HTTP status 503",
    "nextTry": "2026-01-01T00:00:10Z",
    "deliveredAt": None,
}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    lab = {"workspaces": [{"id": 7, "name": "lab"}], "pagination": {"endIndex": 1, "total": 1}}
    master.on("GET", "/api/v1/workspaces", lab)
    master.on("GET", W, {"webhooks": [HOOK]})
    master.on("POST", W, {"webhook": HOOK})
    master.on("PATCH", f"{W}/3", {})
    master.on("DELETE", f"{W}/3", {})
    master.on("POST", f"{W}/3/test", {"completed": True})
    master.on("GET", "/api/v1/windlass/webhooks/3/deliveries", {"deliveries": [CALL]})
    master.on("GET", "/api/v1/windlass/webhook-signing-key", {"signingKey": "k"})
    return master


def det(master: ScriptedMaster, *words: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, "webhook", *words])


def test_what_creating_one_sends(cluster: ScriptedMaster) -> None:
    options = ("--state", "error", "--log", "a b", "--alerts", "--slack", "-w", "lab")
    done = det(cluster, "create", "chat", "https://chat/x", *options)
    assert done.exit_code == 0, done.output
    assert done.stderr == "Created webhook 3\n"
    (asked,) = cluster.calls("POST", W)
    assert asked.body == {
        "name": "chat",
        "url": "https://chat/x",
        "webhookType": "WEBHOOK_TYPE_SLACK",
        "mode": "WEBHOOK_MODE_SPECIFIC",
        "workspaceId": 7,
        "triggers": [
            {
                "triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE",
                "condition": {"state": "ERROR"},
            },
            {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "a b"}},
            {"triggerType": "TRIGGER_TYPE_CUSTOM", "condition": {}},
        ],
    }


def test_one_without_a_trigger_is_refused(cluster: ScriptedMaster) -> None:
    done = det(cluster, "create", "chat", "https://chat/x")
    assert done.exit_code == 1
    assert "give at least one of --state, --log and --alerts" in done.output


def test_what_is_listed(cluster: ScriptedMaster) -> None:
    shown = det(cluster, "list").stdout
    for word in ("chat", "slack", "those that name it", "lab", "experiment_state_change ERROR"):
        assert word in shown
    shown = det(cluster, "deliveries", "3").stdout
    assert "HTTP status 503" in shown
    assert det(cluster, "signing-key").stdout == "k\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set-url", "3", "https://other"), "Changed webhook 3\n"),
        (("delete", "3", "--yes"), "Deleted webhook 3\n"),
        (("test", "3"), "The receiver of webhook 3 took the call\n"),
    ],
)
def test_other_verbs(cluster: ScriptedMaster, words: tuple[str, ...], said: str) -> None:
    done = det(cluster, *words)
    assert done.exit_code == 0, done.output
    assert done.stderr == said


def test_a_webhook_is_found_by_its_name(cluster: ScriptedMaster) -> None:
    for word in ("chat", "3"):
        assert det(cluster, "test", word).exit_code == 0
    assert len(cluster.calls("POST", f"{W}/3/test")) == 2
    missing = det(cluster, "delete", "chatt", "-y")
    assert (missing.exit_code, "webhook 'chatt' not found" in missing.stderr) == (1, True)
    cluster.on("GET", W, {"webhooks": [HOOK, {**HOOK, "id": 4}]})
    both = det(cluster, "delete", "chat", "-y")
    assert (both.exit_code, "give an id of 3, 4" in both.stderr) == (1, True)
