"""`det workspace`, `det project` and `det experiment move`: what they send and what they print."""

from __future__ import annotations

import json
import os
import pty
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer import Abort
from typer.testing import CliRunner, Result

from windlass.cli.main import app
from windlass.cli.places import confirm_at_terminal

LAB: dict[str, Any] = {
    "id": 7,
    "name": "lab",
    "username": "admin",
    "numProjects": 1,
    "numExperiments": 3,
    "archived": False,
}
VISION: dict[str, Any] = {
    "id": 9,
    "name": "vision",
    "key": "VISIO",
    "username": "admin",
    "numExperiments": 3,
    "numActiveExperiments": 1,
    "lastExperimentStartedAt": "2026-01-02T03:04:05.678901Z",
    "archived": False,
}
MEMBERS: dict[str, Any] = {
    "usersAssignedDirectly": [{"id": 5, "username": "ann"}],
    "groups": [{"groupId": 3, "name": "team"}],
    "assignments": [
        {
            "role": {"name": "Editor"},
            "userRoleAssignments": [{"userId": 5}],
            "groupRoleAssignments": [{"groupId": 3}],
        }
    ],
}
EXPERIMENT: dict[str, Any] = {"id": 5, "name": "birds", "state": "STATE_COMPLETED"}
W, P = "/api/v1/workspaces", "/api/v1/projects"


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    page = {"endIndex": 1, "total": 1}
    master.on("GET", W, {"workspaces": [LAB], "pagination": page})
    master.on("GET", f"{W}/7/projects", {"projects": [VISION], "pagination": page})
    for method, path in (("POST", W), ("PATCH", f"{W}/7")):
        master.on(method, path, {"workspace": LAB, "namespaceBindings": {}})
    for method, path in (("POST", f"{W}/7/projects"), ("PATCH", f"{P}/9")):
        master.on(method, path, {"project": VISION})
    for path in (f"{W}/7", f"{P}/9"):
        master.on("DELETE", path, {"completed": False})
        master.on("POST", f"{path}/archive", {})
        master.on("POST", f"{path}/unarchive", {})
    master.on("POST", f"{P}/9/move", {})
    pools = [{"name": name, "type": "", "defaultAuxPool": False} for name in ("gpu", "cpu")]
    master.on("GET", "/api/v1/resource-pools", {"resourcePools": pools})
    usable = {"resourcePools": ["gpu"], "pagination": page}
    master.on("GET", f"{W}/7/available-resource-pools", usable)
    master.on("GET", "/api/v1/roles/workspace/7", MEMBERS)
    master.on("GET", "/api/v1/experiments", {"experiments": [EXPERIMENT], "pagination": page})
    master.on("POST", "/api/v1/experiments/5/move", {})
    return master


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments])


@pytest.mark.parametrize(
    ("words", "said", "method", "path", "body"),
    [
        ("w create lab", "Created workspace lab", "POST", W, {"name": "lab"}),
        ("w edit la --name n", "Changed workspace lab", "PATCH", f"{W}/7", {"name": "n"}),
        (
            *("w create lab --default-compute-pool gpu", "Created workspace lab", "POST", W),
            {"name": "lab", "defaultComputePool": "gpu"},
        ),
        (
            "w edit la --default-aux-pool= --checkpoint-storage-config {}",
            *("Changed workspace lab", "PATCH", f"{W}/7"),
            {"defaultAuxPool": "", "checkpointStorageConfig": {}},
        ),
        (
            *("w edit la --agent-uid 1001 --agent-user vision", "Changed workspace lab"),
            *("PATCH", f"{W}/7", {"agentUserGroup": {"agentUid": 1001, "agentUser": "vision"}}),
        ),
        ("w archive lab", "Archived workspace lab", "POST", f"{W}/7/archive", None),
        ("w unarchive lab", "Unarchived workspace lab", "POST", f"{W}/7/unarchive", None),
        ("w delete lab -y", "Deleting workspace lab", "DELETE", f"{W}/7", None),
        (
            *("p create lab vision --key V", "Created project vision (VISIO)"),
            *("POST", f"{W}/7/projects"),
            {"name": "vision", "description": "", "key": "V", "workspaceId": 7},
        ),
        (
            *("p edit lab vision --description d", "Changed project vision (VISIO)"),
            *("PATCH", f"{P}/9", {"name": None, "description": "d", "key": None}),
        ),
        (
            *("p edit lab vision --new_name n", "Changed project vision (VISIO)"),
            *("PATCH", f"{P}/9", {"name": "n", "description": None, "key": None}),
        ),
        (
            *("p move lab vision lab", "Moved project vision to workspace lab"),
            *("POST", f"{P}/9/move", {"projectId": 9, "destinationWorkspaceId": 7}),
        ),
        ("p archive lab vis", "Archived project vis", "POST", f"{P}/9/archive", None),
        ("p unarchive lab vision", "Unarchived project vision", "POST", f"{P}/9/unarchive", None),
        ("p delete lab vision -y", "Deleting project vision", "DELETE", f"{P}/9", None),
        (
            *("e move 5 lab vision", "Moved experiment 5 to project vision"),
            *("POST", "/api/v1/experiments/5/move"),
            {"experimentId": 5, "destinationProjectId": 9},
        ),
    ],
)
def test_each_verb_asks_for_one_thing(
    cluster: ScriptedMaster, words: str, said: str, method: str, path: str, body: Any
) -> None:
    result = det(cluster, *words.split())
    assert (result.exit_code, result.stderr.strip()) == (0, said), result.output
    last = cluster.asked[-1]
    assert (last.method, last.path) == (method, path)
    assert (last.body or None) == body


def test_lists_and_descriptions(cluster: ScriptedMaster) -> None:
    assert json.loads(det(cluster, "w", "list", "--json").stdout) == [LAB]
    assert json.loads(det(cluster, "p", "list", "lab", "--json").stdout) == [VISION]
    assert json.loads(det(cluster, "w", "describe", "lab", "--json").stdout) == LAB
    assert "key: VISIO" in det(cluster, "p", "describe", "lab", "vision").stdout
    missing = det(cluster, "p", "describe", "lab", "speech")
    assert missing.exit_code != 0


def test_nothing_is_deleted_without_a_yes(cluster: ScriptedMaster) -> None:
    for words in (["w", "delete", "lab"], ["p", "delete", "lab", "vision"]):
        assert det(cluster, *words).exit_code == 1
    assert not [one for one in cluster.asked if one.method == "DELETE"]


def test_checkpoint_storage_comes_from_a_file(cluster: ScriptedMaster, tmp_path: Path) -> None:
    section = tmp_path / "storage.yaml"
    section.write_text("{type: s3, bucket: lab}")
    result = det(cluster, "w", "edit", "lab", "--checkpoint-storage-config-file", str(section))
    assert result.exit_code == 0, result.output
    (sent,) = [one for one in cluster.asked if one.method == "PATCH"]
    assert sent.body == {"checkpointStorageConfig": {"type": "s3", "bucket": "lab"}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("w edit lab", "give --name"),
        ("w edit lab --checkpoint-storage-config [", "not JSON"),
        ("w create n --checkpoint-storage-config []", "expected a JSON object"),
        ("w create n --checkpoint-storage-config {} --checkpoint-storage-config-file x", "give"),
    ],
)
def test_what_says_nothing_is_refused(cluster: ScriptedMaster, words: str, said: str) -> None:
    result = det(cluster, *words.split())
    assert result.exit_code != 0
    assert said in result.output


def test_what_is_in_a_workspace(cluster: ScriptedMaster) -> None:
    assert json.loads(det(cluster, "w", "list-projects", "lab", "--json").stdout) == [VISION]
    (pool,) = json.loads(det(cluster, "w", "list-pools", "lab", "--json").stdout)
    assert pool["name"] == "gpu"
    assert json.loads(det(cluster, "w", "list-members", "lab", "--json").stdout) == [
        {"role": "Editor", "holder": "group team"},
        {"role": "Editor", "holder": "user ann"},
    ]


def test_experiments_of_a_project_are_ones_own_unless_all_are_asked_for(
    cluster: ScriptedMaster,
) -> None:
    for option, users in (("-a", None), ("", ["determined"])):
        words = ["p", "list-experiments", "lab", "vision", "--json", *([option] if option else [])]
        assert json.loads(det(cluster, *words).stdout) == [EXPERIMENT]
        asked = cluster.calls("GET", "/api/v1/experiments")[-1]
        assert (asked.query["projectId"], asked.query.get("users")) == (["9"], users)


@pytest.mark.parametrize(
    ("answer", "yes", "goes_on"), [("n", False, False), ("y", False, True), ("n", True, True)]
)
def test_a_person_is_asked_and_a_program_is_not(
    monkeypatch: pytest.MonkeyPatch, answer: str, yes: bool, goes_on: bool
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    with os.fdopen(theirs) as terminal, nullcontext() if goes_on else pytest.raises(Abort):
        monkeypatch.setattr(sys, "stdin", terminal)
        confirm_at_terminal("Remove it?", yes)
    os.close(ours)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        confirm_at_terminal("Remove it?", False)
