"""`det user-group` and `det rbac`: what they send and what they print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

G, R = "/api/v1/groups", "/api/v1/roles"
ANN: dict[str, Any] = {"id": 5, "username": "ann", "displayName": "Ann"}
ROLE: dict[str, Any] = {
    "roleId": 4,
    "name": "Viewer",
    "permissions": [{"id": "PERMISSION_TYPE_VIEW_NSC", "name": "view notebooks"}],
    "scopeTypeMask": {"cluster": True, "workspace": True},
}
TEAM: dict[str, Any] = {"groupId": 3, "name": "team", "users": [ANN]}
HELD: dict[str, Any] = {
    "role": ROLE,
    "userRoleAssignments": [
        {"userId": 5, "roleAssignment": {"role": ROLE, "scopeWorkspaceId": 7}},
    ],
    "groupRoleAssignments": [
        {"groupId": 3, "roleAssignment": {"role": ROLE, "scopeWorkspaceId": None}},
    ],
}
SUMMARY: dict[str, Any] = {
    "roles": [ROLE],
    "assignments": [{"roleId": 4, "scopeCluster": True, "scopeWorkspaceIds": [7]}],
}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    page = {"endIndex": 1, "total": 1}
    lab = {"id": 7, "name": "lab"}
    found = {"group": {"groupId": 3, "name": "team"}, "numMembers": 1}
    master.on("GET", "/api/v1/users/ann/by-username", {"user": ANN})
    master.on("GET", "/api/v1/users", {"users": [ANN], "pagination": page})
    master.on("GET", "/api/v1/workspaces", {"workspaces": [lab], "pagination": page})
    master.on("POST", f"{G}/search", {"groups": [found], "pagination": page})
    for method, path in (("POST", G), ("GET", f"{G}/3"), ("PUT", f"{G}/3")):
        master.on(method, path, {"group": TEAM})
    master.on("DELETE", f"{G}/3", {})
    master.on("POST", f"{R}/search", {"roles": [ROLE], "pagination": page})
    master.on("POST", f"{R}/search/by-assignability", {"roles": [ROLE], "pagination": page})
    master.on("POST", f"{R}/search/by-ids", {"roles": [HELD]})
    master.on("GET", f"{R}/search/by-user/5", {"roles": [HELD]})
    master.on("GET", f"{R}/search/by-group/3", SUMMARY)
    master.on("GET", "/api/v1/permissions/summary", SUMMARY)
    for path in ("add", "remove"):
        master.on("POST", f"{R}/{path}-assignments", {})
    return master


def det(master: ScriptedMaster, words: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *words.split()])


def assigned(holder: str, id_: int, workspace: int | None) -> dict[str, Any]:
    one = {"role": {"roleId": 4}, "scopeWorkspaceId": workspace}
    return {f"{holder}RoleAssignments": [{f"{holder}Id": id_, "roleAssignment": one}]}


@pytest.mark.parametrize(
    ("words", "said", "method", "path", "body"),
    [
        (
            *("user-group create team --add-user ann", "Created group team", "POST", G),
            {"name": "team", "addUsers": [5]},
        ),
        (
            *("user-group add-user team ann", "Added ann to group team", "PUT", f"{G}/3"),
            {"name": None, "addUsers": [5], "removeUsers": []},
        ),
        (
            *("user-group remove-user team ann", "Removed ann from group team", "PUT", f"{G}/3"),
            {"name": None, "addUsers": [], "removeUsers": [5]},
        ),
        (
            *("user-group change-name team lab", "Renamed group team to lab", "PUT", f"{G}/3"),
            {"name": "lab", "addUsers": [], "removeUsers": []},
        ),
        ("user-group delete team -y", "Deleted group team", "DELETE", f"{G}/3", None),
        (
            *("rbac assign-role viewer -u ann -w lab", "Assigned viewer to ann in lab"),
            *("POST", f"{R}/add-assignments", assigned("user", 5, 7)),
        ),
        (
            *("rbac unassign-role Viewer -g team", "Took Viewer from team in the cluster"),
            *("POST", f"{R}/remove-assignments", assigned("group", 3, None)),
        ),
    ],
)
def test_each_verb_asks_for_one_thing(
    cluster: ScriptedMaster, words: str, said: str, method: str, path: str, body: Any
) -> None:
    result = det(cluster, words)
    assert (result.exit_code, result.stderr.strip()) == (0, said), result.output
    last = cluster.asked[-1]
    assert (last.method, last.path, last.body) == (method, path, body)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("user-group list", ["team"]),
        ("user-group describe team", ["ann"]),
        ("rbac list-roles", ["Viewer"]),
        ("rbac my-permissions", ["Viewer | (cluster)", "Viewer | lab"]),
        ("rbac list-groups-roles team", ["Viewer | (cluster) | team", "Viewer | lab | team"]),
        (
            "rbac list-users-roles ann",
            ["Viewer | lab | ann", "Viewer | (cluster) | group team"],
        ),
        (
            "rbac describe-role viewer",
            [
                "VIEW_NSC: view notebooks",
                "Viewer | lab | user ann",
                "Viewer | (cluster) | group team",
            ],
        ),
    ],
)
def test_what_is_listed(cluster: ScriptedMaster, words: str, lines: list[str]) -> None:
    result = det(cluster, words)
    assert result.exit_code == 0, result.output
    shown = [" ".join(line.replace("|", " ").split()) for line in result.stdout.splitlines()]
    for line in lines:
        wanted = " ".join(line.replace("|", " ").split())
        assert any(one.startswith(wanted) for one in shown), (wanted, shown)


def test_roles_for_the_whole_cluster_alone_may_be_left_out(cluster: ScriptedMaster) -> None:
    boss = {**ROLE, "name": "Boss", "scopeTypeMask": {"cluster": True, "workspace": False}}
    cluster.on("POST", f"{R}/search", {"roles": [ROLE, boss], "pagination": {}})
    for option, shown in (("", ["Viewer", "Boss"]), (" --exclude-global-roles", ["Viewer"])):
        listed = json.loads(det(cluster, f"rbac list-roles --json{option}").stdout)
        assert [one["name"] for one in listed] == shown


def test_what_is_printed_as_json(cluster: ScriptedMaster) -> None:
    assert json.loads(det(cluster, "user-group describe team --json").stdout) == TEAM
    assert json.loads(det(cluster, "rbac describe-role Viewer --json").stdout) == HELD
    assert json.loads(det(cluster, "rbac my-permissions --json").stdout) == SUMMARY


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("rbac assign-role Viewer", "Give either --username-to-assign or --group-name-to-assign"),
        ("rbac assign-role Nobody -u ann", "role 'Nobody' not found"),
    ],
)
def test_what_is_refused(cluster: ScriptedMaster, words: str, why: str) -> None:
    result = det(cluster, words)
    assert result.exit_code != 0
    assert why in result.output
    assert not [one for one in cluster.asked if one.path.endswith("-assignments")]


def test_no_group_is_deleted_without_a_yes(cluster: ScriptedMaster) -> None:
    assert det(cluster, "user-group delete team").exit_code == 1
    assert not [one for one in cluster.asked if one.method == "DELETE"]
