"""Groups and roles over REST, and what they decide where `security.authz.type` is rbac."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from master.core.roles.catalogue import RoleId
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world

GROUPS, ROLES = "/api/v1/groups", "/api/v1/roles"
COMMAND: dict[str, Any] = {"config": {"entrypoint": ["true"]}}
OWN = [{"id": 101, "name": "Auditor", "permissions": ["VIEW_MASTER_LOGS", "VIEW_NSC"]}]
LOST = ", please check your permissions."


@pytest.fixture
async def rbac(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    """Roles decide. Logged in as admin, who administrates the cluster; `determined` holds no role."""
    async with api_world(tmp_path, security={"authz.type": "rbac", "authz.roles": OWN}) as world:
        await world.login()
        yield world


async def new_user(world: ApiWorld, name: str) -> int:
    body = {"user": {"username": name, "active": True}, "password": PASSWORD, "isHashed": False}
    return int((await world.ok("POST", "/api/v1/users", body))["user"]["id"])


async def as_user(world: ApiWorld, name: str) -> str:
    mine = world.token
    other = await world.login(name)
    world.token = mine
    return other


def role_of_user(user: int, role: int, workspace: int | None = None) -> dict[str, Any]:
    one = {"role": {"roleId": int(role)}, "scopeWorkspaceId": workspace}
    return {"userRoleAssignments": [{"userId": user, "roleAssignment": one}]}


def role_of_group(group: int, role: int, workspace: int | None = None) -> dict[str, Any]:
    one = {"role": {"roleId": int(role)}, "scopeWorkspaceId": workspace}
    return {
        "groupRoleAssignments": [{"groupId": group, "roleAssignment": one}],
        "userRoleAssignments": [],
    }


async def new_group(world: ApiWorld, name: str, *users: int) -> int:
    made = await world.ok("POST", GROUPS, {"name": name, "addUsers": list(users)})
    return int(made["group"]["groupId"])


async def new_workspace(world: ApiWorld, name: str, **options: Any) -> int:
    made = await world.ok("POST", "/api/v1/workspaces", {"name": name}, **options)
    return int(made["workspace"]["id"])


async def held_in(world: ApiWorld, workspace: int, query: str = "") -> dict[str, Any]:
    found = await world.ok("GET", f"{ROLES}/workspace/{workspace}{query}")
    return {
        "users": [user["username"] for user in found["usersAssignedDirectly"]],
        "groups": [group["name"] for group in found["groups"]],
        "roles": [one["role"]["name"] for one in found["assignments"]],
    }


async def test_groups_are_made_changed_found_and_deleted(world: ApiWorld) -> None:
    a, b = await new_user(world, "ann"), await new_user(world, "bob")
    group = await new_group(world, "team", a)
    one = f"{GROUPS}/{group}"
    changed = {"name": "lab", "addUsers": [b], "removeUsers": [a]}
    shown = (await world.ok("PUT", one, changed))["group"]
    assert (shown["name"], [u["username"] for u in shown["users"]]) == ("lab", ["bob"])
    assert (await world.ok("GET", one))["group"] == shown
    await new_group(world, "other")

    async def search(**body: Any) -> list[Any]:
        found = await world.ok("POST", f"{GROUPS}/search", {"limit": 10, **body})
        return [(one["group"]["name"], one["numMembers"]) for one in found["groups"]]

    assert await search() == [("lab", 1), ("other", 0)]
    assert await search(name="lab") == await search(userId=b) == [("lab", 1)]
    assert await search(name="la") == []
    assert await search(offset=1) == [("other", 0)]
    several = {"userIds": [a, b], "addGroups": [group], "removeGroups": []}
    await world.ok("PATCH", "/api/v1/users/assignments", several)
    assert await search(name="lab") == [("lab", 2)]
    await world.ok("DELETE", one)
    assert await search() == [("other", 0)]
    await world.refused(404, "GET", one)


async def test_groups_that_are_refused(world: ApiWorld) -> None:
    a = await new_user(world, "ann")
    group = await new_group(world, "team", a)
    one, several = f"{GROUPS}/{group}", "/api/v1/users/assignments"
    for status, method, path, body in (
        (409, "POST", GROUPS, {"name": "team"}),
        (400, "POST", GROUPS, {"name": ""}),
        (400, "POST", GROUPS, {"name": "DeterminedPersonalGroup7"}),
        (404, "POST", GROUPS, {"name": "new", "addUsers": [99]}),
        (409, "PUT", one, {"addUsers": [a]}),
        (404, "PUT", one, {"removeUsers": [1]}),
        (404, "PUT", f"{GROUPS}/99", {"name": "x"}),
        (404, "DELETE", f"{GROUPS}/99", None),
        (404, "PATCH", several, {"userIds": [a], "addGroups": [99]}),
        (400, "PATCH", several, {"userIds": [a], "addGroups": [group], "removeGroups": [group]}),
        (400, "POST", f"{GROUPS}/search", {"limit": 0}),
        (400, "POST", f"{GROUPS}/search", {"limit": 501}),
    ):
        await world.refused(status, method, path, body)
    assert (await world.ok("GET", one))["group"]["users"][0]["id"] == a
    member = await as_user(world, "ann")
    assert "permission" in await world.refused(403, "POST", GROUPS, {"name": "b"}, token=member)
    found = await world.ok("POST", f"{GROUPS}/search", {"limit": 1}, token=member)
    assert found["pagination"]["total"] == 1, "everybody sees them by the basic rules"


async def test_roles_are_assigned_read_and_removed(world: ApiWorld) -> None:
    a, w = await new_user(world, "ann"), await new_workspace(world, "lab")
    group = await new_group(world, "team", a)
    add, remove = f"{ROLES}/add-assignments", f"{ROLES}/remove-assignments"
    await world.ok("POST", add, role_of_user(a, RoleId.VIEWER, w))
    await world.ok("POST", add, role_of_group(group, RoleId.EDITOR))
    for status, path, body in (
        (409, add, role_of_user(a, RoleId.VIEWER, w)),
        (400, add, role_of_user(a, RoleId.CLUSTER_ADMIN, w)),
        (400, add, {"userRoleAssignments": [], "groupRoleAssignments": []}),
        (404, add, role_of_user(99, RoleId.VIEWER)),
        (404, add, role_of_user(a, 99)),
        (404, add, role_of_user(a, RoleId.VIEWER, 99)),
        (404, add, role_of_group(99, RoleId.VIEWER)),
        (404, remove, role_of_user(a, RoleId.EDITOR)),
    ):
        await world.refused(status, "POST", path, body)
    member = await as_user(world, "ann")
    await world.refused(403, "POST", add, role_of_user(a, RoleId.EDITOR, w), token=member)
    own = await world.ok("GET", "/api/v1/permissions/summary", token=member)
    assert own["assignments"] == [
        {"roleId": 4, "scopeCluster": False, "scopeWorkspaceIds": [w]},
        {"roleId": 5, "scopeCluster": True, "scopeWorkspaceIds": []},
    ]
    assert [role["name"] for role in own["roles"]] == ["Viewer", "Editor"]
    of_user = await world.ok("GET", f"{ROLES}/search/by-user/{a}", token=member)
    assert [len(one["groupRoleAssignments"]) for one in of_user["roles"]] == [0, 1]
    of_group = await world.ok("GET", f"{ROLES}/search/by-group/{group}", token=member)
    assert [one["roleId"] for one in of_group["assignments"]] == [5]
    by_id = await world.ok("POST", f"{ROLES}/search/by-ids", {"roleIds": [5, 4]}, token=member)
    assert [one["role"]["name"] for one in by_id["roles"]] == ["Editor", "Viewer"]
    assert await held_in(world, w) == {
        "users": ["admin", "ann"],
        "groups": [],
        "roles": ["WorkspaceAdmin", "Viewer"],
    }
    assert (await held_in(world, w, "?name=an"))["users"] == ["ann"]
    all_ = await world.ok("POST", f"{ROLES}/search", {"limit": 0, "offset": 8})
    assert [role["name"] for role in all_["roles"]] == ["EditorProjectRestricted", "TokenCreator"]
    await world.refused(400, "POST", f"{ROLES}/search", {"limit": 501})
    body = {"limit": 500, "workspaceId": w}
    found = (await world.ok("POST", f"{ROLES}/search/by-assignability", body))["roles"]
    assert [role["roleId"] for role in found] == [2, 4, 5, 6, 7, 9]
    await world.ok("POST", remove, role_of_group(group, RoleId.EDITOR))
    await world.ok("DELETE", f"/api/v1/workspaces/{w}")
    own = await world.ok("GET", "/api/v1/permissions/summary", token=member)
    assert own == {"roles": [], "assignments": []}


async def test_roles_decide_on_the_next_request_and_what_is_hidden_is_not_there(
    rbac: ApiWorld,
) -> None:
    lab = await new_workspace(rbac, "lab")
    made = await rbac.ok("POST", f"/api/v1/workspaces/{lab}/projects", {"name": "p"})
    project = made["project"]["id"]
    hidden, seen = await rbac.create(), await rbac.create(projectId=project)
    other = await as_user(rbac, "determined")
    experiments = "/api/v1/experiments"
    assert (await rbac.ok("GET", experiments, token=other))["pagination"]["total"] == 0
    assert (await rbac.ok("GET", "/api/v1/workspaces", token=other))["workspaces"] == []
    for method, path, body in (
        ("GET", f"{experiments}/{seen}", None),
        ("POST", f"{experiments}/{seen}/kill", {}),
        ("GET", f"/api/v1/trials/{rbac.trial_id(seen)}", None),
        ("DELETE", f"/api/v1/workspaces/{lab}", None),
    ):
        absent = await rbac.refused(404, method, path.replace(str(seen), "99"), body, token=other)
        told = await rbac.refused(404, method, path, body, token=other)
        assert told.endswith(LOST)
        assert absent.endswith(LOST)
    create = {"config": SINGLE, "activate": True, "modelDefinition": [], "projectId": project}
    await rbac.refused(403, "POST", experiments, create, token=other)

    add, remove = f"{ROLES}/add-assignments", f"{ROLES}/remove-assignments"
    await rbac.ok("POST", add, role_of_user(2, RoleId.VIEWER, lab))
    found = await rbac.ok("GET", experiments, token=other)
    assert [one["id"] for one in found["experiments"]] == [seen]
    assert found["pagination"]["total"] == 1
    denied = await rbac.refused(403, "POST", f"{experiments}/{seen}/kill", {}, token=other)
    assert denied == "access denied; required permissions: PERMISSION_TYPE_UPDATE_EXPERIMENT"
    await rbac.refused(404, "GET", f"{experiments}/{hidden}", token=other)
    await rbac.ok("POST", add, role_of_user(2, RoleId.EDITOR, lab))
    await rbac.ok("POST", f"{experiments}/{seen}/pause", {}, token=other)
    await rbac.ok("POST", experiments, create, token=other)
    await rbac.refused(404, "POST", experiments, {**create, "projectId": 1}, token=other)
    # Moved to where the reader sees nothing, it is gone at once.
    await rbac.ok("POST", f"{experiments}/{seen}/move", {"destinationProjectId": 1})
    await rbac.refused(404, "GET", f"{experiments}/{seen}", token=other)
    for role in (RoleId.VIEWER, RoleId.EDITOR):
        await rbac.ok("POST", remove, role_of_user(2, role, lab))
    assert (await rbac.ok("GET", experiments, token=other))["pagination"]["total"] == 0


async def test_whoever_creates_a_workspace_administrates_it(rbac: ApiWorld) -> None:
    other = await as_user(rbac, "determined")
    await rbac.refused(403, "POST", "/api/v1/workspaces", {"name": "mine"}, token=other)
    creator = role_of_user(2, RoleId.WORKSPACE_CREATOR)
    await rbac.ok("POST", f"{ROLES}/add-assignments", creator)
    lab = await new_workspace(rbac, "mine", token=other)
    a = await new_user(rbac, "ann")
    editor = role_of_user(a, RoleId.EDITOR, lab)
    await rbac.ok("POST", f"{ROLES}/add-assignments", editor, token=other)
    elsewhere = role_of_user(a, RoleId.EDITOR, 1)
    await rbac.refused(404, "POST", f"{ROLES}/add-assignments", elsewhere, token=other)
    everywhere = role_of_user(a, RoleId.EDITOR)
    await rbac.refused(403, "POST", f"{ROLES}/add-assignments", everywhere, token=other)
    await rbac.ok("POST", "/api/v1/commands", {**COMMAND, "workspaceId": lab}, token=other)
    await rbac.refused(404, "POST", "/api/v1/commands", COMMAND, token=other)


async def test_agents_jobs_and_logs_of_the_master_are_shown_by_permission(rbac: ApiWorld) -> None:
    agent = await rbac.add_agent()
    experiment = await rbac.create()
    await rbac.run_of(experiment)
    other = await as_user(rbac, "determined")
    (shown,) = (await rbac.ok("GET", "/api/v1/agents", token=other))["agents"]
    assert shown["id"] == "********"
    assert {slot["device"]["uuid"] for slot in shown["slots"].values()} == {"********"}
    assert all(container["permissionDenied"] for container in shown["containers"].values())
    await rbac.refused(404, "GET", f"/api/v1/agents/{agent.agent_id}", token=other)
    (whole,) = (await rbac.ok("GET", "/api/v1/agents"))["agents"]
    assert whole["id"] == agent.agent_id
    assert shown["slotStats"] == whole["slotStats"]
    assert len(shown["slots"]) == len(whole["slots"])

    (job,) = (await rbac.ok("GET", "/api/v1/job-queues-v2", token=other))["jobs"]
    assert "name" not in job["limited"]
    assert (await rbac.ok("GET", "/api/v1/job-queues", token=other))["jobs"] == []
    (own,) = (await rbac.ok("GET", "/api/v1/job-queues-v2"))["jobs"]
    assert own["full"]["jobId"] == job["limited"]["jobId"]

    await rbac.refused(403, "GET", "/api/v1/master/logs", token=other)
    await rbac.ok("POST", f"{ROLES}/add-assignments", role_of_user(2, 101))
    await rbac.lines("/api/v1/master/logs?limit=1", token=other)
    found = await rbac.ok("POST", f"{ROLES}/search", {"limit": 500}, token=other)
    assert [role["name"] for role in found["roles"]] == ["Auditor"]


async def test_others_see_only_their_own_groups(rbac: ApiWorld) -> None:
    mine, others = await new_group(rbac, "mine", 2), await new_group(rbac, "others", 1)
    other = await as_user(rbac, "determined")
    found = await rbac.ok("POST", f"{GROUPS}/search", {"limit": 10}, token=other)
    assert [one["group"]["name"] for one in found["groups"]] == ["mine"]
    await rbac.ok("GET", f"{GROUPS}/{mine}", token=other)
    await rbac.refused(404, "GET", f"{GROUPS}/{others}", token=other)
    await rbac.refused(404, "GET", f"{ROLES}/search/by-group/{others}", token=other)
    await rbac.ok("GET", f"{ROLES}/search/by-user/2", token=other)
    await rbac.refused(403, "GET", f"{ROLES}/search/by-user/1", token=other)
    by_ids = f"{ROLES}/search/by-ids"
    await rbac.refused(403, "POST", by_ids, {"roleIds": [4]}, token=other)


async def test_clients_are_told_of_roles_as_the_configuration_says(
    rbac: ApiWorld, tmp_path: Path
) -> None:
    assert (await rbac.ok("GET", "/api/v1/master"))["rbacEnabled"] is True
    authz = {"authz.rbac_ui_enabled": True, "authz.strict_job_queue_control": True}
    async with api_world(tmp_path / "ui", security=authz) as world:
        await world.login()
        info = await world.ok("GET", "/api/v1/master")
        assert (info["rbacEnabled"], info["strictJobQueueControl"]) == (True, True)
        experiment = await world.create()
        job = world.services.experiments.live(experiment)
        assert job is not None
        update = {"updates": [{"jobId": job.state.job_id, "priority": 7}]}
        other = await as_user(world, "determined")
        await world.refused(403, "POST", "/api/v1/job-queues", update, token=other)
        await world.ok("POST", "/api/v1/job-queues", update)
        # Work of one's own, too, and by whatever request.
        theirs = (await world.ok("POST", "/api/v1/experiments", {"config": SINGLE}, token=other))[
            "experiment"
        ]["id"]
        for resources, status in (
            ({"priority": 7}, 403),
            ({"weight": 2}, 403),
            ({"maxSlots": 2}, 200),
        ):
            patch = ("PATCH", f"/api/v1/experiments/{theirs}", {"resources": resources})
            answer = await world.call(*patch, token=other)
            assert answer.status_code == status, answer.text
            await world.ok(*patch)
        run = await world.ok("POST", "/api/v1/commands", COMMAND, token=other)
        stronger = (
            "POST",
            f"/api/v1/commands/{run['command']['id']}/set_priority",
            {"priority": 7},
        )
        await world.refused(403, *stronger, token=other)
        await world.ok(*stronger)


async def test_the_other_type_and_back_loses_no_assignment(world: ApiWorld) -> None:
    roles, auth = world.services.roles, world.services.auth
    await world.ok("POST", f"{ROLES}/add-assignments", role_of_user(2, RoleId.VIEWER))
    experiment = await world.create()
    other = await as_user(world, "determined")
    kill = ("POST", f"/api/v1/experiments/{experiment}/kill", {})
    assert "belongs to admin" in await world.refused(403, *kill, token=other)
    auth.register_rules(roles.rules_of)
    before = roles.assignments()
    assert "UPDATE_EXPERIMENT" in await world.refused(403, *kill, token=other)
    await roles.load()
    assert roles.assignments() == before
    auth.register_rules(lambda user_id: None)
    assert "belongs to admin" in await world.refused(403, *kill, token=other)
