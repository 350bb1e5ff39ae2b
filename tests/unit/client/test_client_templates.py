"""`det template`: what it sends and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

CONFIG: dict[str, Any] = {"resources": {"slots_per_trial": 2}, "labels": ["a"]}
TEMPLATE: dict[str, Any] = {
    "name": "team/gpu",
    "config": CONFIG,
    "workspaceId": 1,
    "userId": 2,
    "username": "determined",
    "modifiedAt": "2026-01-02T03:04:05.678901Z",
}
OTHER = {**TEMPLATE, "name": "plain", "workspaceId": 7, "config": {}}
ONE = "/api/v1/templates/team%2Fgpu"
WARNING = "experiments cannot use this template: <config>: no"


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    page = {"endIndex": 2, "total": 2}
    both = {"templates": [OTHER, TEMPLATE], "pagination": page}
    master.on("GET", "/api/v1/templates", both)
    named = {"workspaces": [{"id": 1, "name": "Uncategorized"}], "pagination": page}
    master.on("GET", "/api/v1/workspaces", named)
    for method in ("POST", "PUT", "PATCH"):
        master.on(method, ONE, {"template": TEMPLATE, "configWarnings": [WARNING]})
    master.on("GET", ONE, {"template": TEMPLATE})
    master.on("DELETE", ONE, {})
    master.on("PATCH", "/api/v1/template/rename", {"template": TEMPLATE})
    return master


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "template.yaml"
    path.write_text("# for all\nresources: {slots_per_trial: 2}\nlabels: [a]\n")
    return str(path)


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments])


def said(result: Result) -> list[str]:
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    return result.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("noun", ["template", "tpl"])
def test_the_list_shows_whose_they_are(cluster: ScriptedMaster, noun: str) -> None:
    lines = det(cluster, noun, "list").stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["Name", "Workspace", "Owner"],
        ["plain", "7", "determined"],
        ["team/gpu", "Uncategorized", "determined"],
    ]
    assert "slots_per_trial" not in det(cluster, noun, "list").stdout
    assert json.dumps(CONFIG) in det(cluster, noun, "ls", "-d").stdout
    assert json.loads(det(cluster, noun, "list", "--json").stdout) == [OTHER, TEMPLATE]


def test_describe_prints_what_may_be_stored_again(cluster: ScriptedMaster) -> None:
    result = det(cluster, "template", "describe", "team/gpu")
    assert result.stdout == "resources:\n  slots_per_trial: 2\nlabels:\n- a\n"
    result = det(cluster, "template", "describe", "team/gpu", "--json")
    assert json.loads(result.stdout) == TEMPLATE


@pytest.mark.parametrize(
    ("words", "method", "done"),
    [
        (["create"], "POST", "Created"),
        (["set"], "PUT", "Set"),
        (["set-value", "config"], "PATCH", "Updated"),
    ],
)
def test_a_file_becomes_a_template(
    cluster: ScriptedMaster, file: str, words: list[str], method: str, done: str
) -> None:
    lines = said(det(cluster, "template", *words, "team/gpu", file))
    assert lines == [f"warning: {WARNING}", f"{done} template team/gpu"]
    (asked,) = cluster.calls(method, ONE)
    whole = {"name": "team/gpu", "config": CONFIG, "workspaceId": 0}
    assert asked.body == (CONFIG if method == "PATCH" else whole)
    result = det(cluster, "template", *words, "team/gpu", file, "--json")
    assert json.loads(result.stdout) == TEMPLATE


def test_it_may_be_of_another_workspace(cluster: ScriptedMaster, file: str) -> None:
    det(cluster, "template", "create", "team/gpu", file, "-w", "Uncategorized")
    (asked,) = cluster.calls("POST", ONE)
    assert asked.body["workspaceId"] == 1
    result = det(cluster, "template", "create", "team/gpu", file, "-w", "none")
    assert (result.exit_code, "workspace 'none' not found" in result.stderr) == (1, True)


def test_rename_and_remove(cluster: ScriptedMaster) -> None:
    lines = said(det(cluster, "template", "set-value", "name", "old", "team/gpu"))
    assert lines == ["Renamed template old to team/gpu"]
    (asked,) = cluster.calls("PATCH", "/api/v1/template/rename")
    assert asked.body == {"oldName": "old", "newName": "team/gpu"}
    for verb in ("remove", "rm"):
        assert said(det(cluster, "template", verb, "team/gpu")) == ["Removed template team/gpu"]
    assert len(cluster.calls("DELETE", ONE)) == 2


def test_what_is_refused_names_the_file(cluster: ScriptedMaster, file: str, tmp_path: Path) -> None:
    refusal = {"error": {"code": 3, "reason": "InvalidArgument", "error": "invalid template: x"}}
    cluster.on("PUT", ONE, lambda _: (400, refusal))
    result = det(cluster, "template", "set", "team/gpu", file)
    assert (result.exit_code, result.stderr) == (1, f"error: {file}: invalid template: x\n")
    (tmp_path / "list.yaml").write_text("- a\n")
    result = det(cluster, "template", "set", "team/gpu", str(tmp_path / "list.yaml"))
    assert "list.yaml: expected a YAML mapping, but found a list" in result.stderr
    result = det(cluster, "template", "describe", "none")
    assert result.exit_code == 1
