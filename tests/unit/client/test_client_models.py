"""`det model`: what it sends and what it prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

MODEL: dict[str, Any] = {
    "id": 7,
    "name": "vision v2",
    "description": "sees",
    "notes": "",
    "labels": ["a", "b"],
    "metadata": {"k": 1},
    "archived": False,
    "numVersions": 2,
    "workspaceId": 1,
    "userId": 2,
    "username": "determined",
    "creationTime": "2026-01-02T03:04:05.678901Z",
    "lastUpdatedTime": "2026-01-02T03:04:05.678901Z",
}
VERSION: dict[str, Any] = {
    **MODEL,
    "id": 12,
    "version": 2,
    "name": "best",
    "comment": "",
    "model": MODEL,
    "checkpoint": {
        "uuid": "5d0fb4f2-33c3",
        "state": "STATE_COMPLETED",
        "metadata": {"steps_completed": 100},
        "resources": {"a": "5"},
        "training": {"trialId": 3, "experimentId": 1, "searcherMetric": 0.25},
    },
}
MODELS, BY_ID = "/api/v1/models", "/api/v1/models/7"


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    page = {"endIndex": 1, "total": 1}
    master.on("GET", MODELS, {"models": [MODEL], "pagination": page})
    master.on("GET", "/api/v1/models/vision%20v2", {"model": MODEL})
    master.on("GET", BY_ID, {"model": MODEL})
    named = {"workspaces": [{"id": 1, "name": "Uncategorized"}], "pagination": page}
    master.on("GET", "/api/v1/workspaces", named)
    versions = {"model": MODEL, "modelVersions": [VERSION], "pagination": page}
    master.on("GET", f"{BY_ID}/versions", versions)
    for method, path in (
        ("POST", f"{BY_ID}/versions"),
        ("PATCH", f"{BY_ID}/versions/2"),
        ("GET", f"{BY_ID}/versions/2"),
    ):
        master.on(method, path, {"modelVersion": VERSION})
    for method, path in (("POST", MODELS), ("PATCH", BY_ID)):
        master.on(method, path, {"model": MODEL})
    for method, path in (
        ("POST", f"{BY_ID}/archive"),
        ("POST", f"{BY_ID}/unarchive"),
        ("DELETE", BY_ID),
        ("DELETE", f"{BY_ID}/versions/2"),
    ):
        master.on(method, path, {})
    return master


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, "model", *arguments])


def said(result: Result) -> list[str]:
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    return result.stderr.splitlines()


def test_models_and_versions_are_listed(cluster: ScriptedMaster) -> None:
    header, row = det(cluster, "list", "--label", "a").stdout.splitlines()
    assert header.split()[:3] == ["Name", "Versions", "Labels"]
    assert [word in row for word in ("vision v2", "a, b", "Uncategorized")] == [True] * 3
    (asked,) = cluster.calls("GET", MODELS)
    assert (asked.query["labels"], asked.query["archived"]) == (["a"], ["false"])
    assert json.loads(det(cluster, "list", "--all", "--json").stdout) == [MODEL]
    header, row = det(cluster, "list-versions", "vision v2").stdout.splitlines()
    assert header.split()[:2] == ["Version", "Name"]
    assert row.split()[:6] == ["2", "best", "1", "3", "100", "0.25"]
    assert json.loads(det(cluster, "describe", "vision v2", "--json").stdout) == MODEL
    shown = det(cluster, "describe", "7", "--version", "2", "--json")
    assert json.loads(shown.stdout) == VERSION


@pytest.mark.parametrize(
    ("words", "asked", "body", "line"),
    [
        (
            ["create", "vision v2", "-w", "Uncat", "--label", "a"],
            ("POST", MODELS),
            {"name": "vision v2", "workspaceId": 1, "labels": ["a"]},
            "Created model vision v2",
        ),
        (
            ["edit", "vision v2", "--description", "", "--no-labels"],
            ("PATCH", BY_ID),
            {"description": "", "labels": []},
            "Changed model vision v2",
        ),
        (
            ["register-version", "7", "5d0f", "--comment", "c"],
            ("POST", f"{BY_ID}/versions"),
            {"checkpointUuid": "5d0f", "modelName": "7", "comment": "c"},
            "Registered version 2 of model vision v2",
        ),
        (
            ["edit-version", "7", "2", "--name", "n", "--label", "x"],
            ("PATCH", f"{BY_ID}/versions/2"),
            {"name": "n", "labels": ["x"]},
            "Changed version 2 of model vision v2",
        ),
        (
            ["move", "7", "uncategorized"],
            ("PATCH", BY_ID),
            {"workspaceId": 1},
            "Moved model vision v2 to workspace Uncategorized",
        ),
        (
            ["move", "7", "-w", "uncategorized"],
            ("PATCH", BY_ID),
            {"workspaceId": 1},
            "Moved model vision v2 to workspace Uncategorized",
        ),
        (["archive", "7"], ("POST", f"{BY_ID}/archive"), None, "Archived model vision v2"),
        (["unarchive", "7"], ("POST", f"{BY_ID}/unarchive"), None, "Unarchived model vision v2"),
        (["delete", "7", "-y"], ("DELETE", BY_ID), None, "Deleted model vision v2"),
        (
            ["delete-version", "7", "2", "-y"],
            ("DELETE", f"{BY_ID}/versions/2"),
            None,
            "Deleted version 2 of model vision v2",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_changes_something(
    cluster: ScriptedMaster, words: list[str], asked: tuple[str, str], body: Any, line: str
) -> None:
    assert said(det(cluster, *words)) == [line]
    (call,) = cluster.calls(*asked)
    given = call.body and {key: value for key, value in call.body.items() if value is not None}
    assert given == body


def test_metadata_is_changed_key_by_key(cluster: ScriptedMaster) -> None:
    assert json.loads(det(cluster, "metadata", "7").stdout) == {"k": 1}
    det(cluster, "metadata", "7", "--set", 'a=[1, "b"]', "--set", "c=d", "--remove", "k")
    (call,) = cluster.calls("PATCH", BY_ID)
    assert call.body == {"metadata": {"a": [1, "b"], "c": "d"}}
    result = det(cluster, "metadata", "7", "--remove", "none")
    assert "Model vision v2 has no metadata 'none'" in result.stderr


def test_a_model_is_named_by_how_it_begins(cluster: ScriptedMaster) -> None:
    missing = {"error": {"code": 5, "reason": "NotFound", "error": "model 'vis' not found"}}
    cluster.on("GET", "/api/v1/models/vis", lambda _: (404, missing))
    assert said(det(cluster, "archive", "vis")) == ["Archived model vision v2"]
    (asked,) = cluster.calls("GET", MODELS)
    assert asked.query["name"] == ["vis"]


def test_what_is_refused(cluster: ScriptedMaster) -> None:
    result = det(cluster, "edit", "7", "--label", "a", "--no-labels")
    assert "--label and --no-labels: only one of them" in result.stderr
    result = CliRunner().invoke(app, ["-m", cluster.url, "model", "delete", "7"], input="n\n")
    assert (result.exit_code, cluster.calls("DELETE", BY_ID)) == (1, [])
    empty = {"model": MODEL, "modelVersions": [], "pagination": {"endIndex": 0, "total": 0}}
    cluster.on("GET", f"{BY_ID}/versions", empty)
    result = det(cluster, "download", "7")
    assert result.stderr == "error: version of model 'vision v2' not found: it has none yet\n"
