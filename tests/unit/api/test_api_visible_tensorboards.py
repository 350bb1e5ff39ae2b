"""A TensorBoard is there for those who may see its workspace and all experiments that it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from master.core.roles.catalogue import RoleId
from tests.fakes.api_world import SINGLE, ApiWorld, api_world
from tests.unit.api.test_api_interactive import running

URL, COMMANDS = "/api/v1/tensorboards", "/api/v1/commands"
READER = 101
OWN = [
    {
        "id": READER,
        "name": "Reader",
        "permissions": ["VIEW_WORKSPACE", "VIEW_EXPERIMENT_ARTIFACTS"],
    }
]


@pytest.fixture
async def rbac(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """Logged in as admin. On both databases."""
    authz = {"authz.type": "rbac", "authz.roles": OWN}
    async with api_world(tmp_path, db_url=db_url, security=authz) as world:
        await world.login()
        yield world


async def give(world: ApiWorld, role: int, workspace: int, *, take: bool = False) -> None:
    one = {"role": {"roleId": int(role)}, "scopeWorkspaceId": workspace}
    path = f"/api/v1/roles/{'remove' if take else 'add'}-assignments"
    await world.ok("POST", path, {"userRoleAssignments": [{"userId": 2, "roleAssignment": one}]})


async def project(world: ApiWorld, name: str) -> tuple[int, int]:
    """A workspace, and its project."""
    made = await world.ok("POST", "/api/v1/workspaces", {"name": name})
    id_ = int(made["workspace"]["id"])
    inside = await world.ok("POST", f"/api/v1/workspaces/{id_}/projects", {"name": name})
    return id_, int(inside["project"]["id"])


async def test_it_is_seen_with_all_that_it_shows(rbac: ApiWorld) -> None:
    await rbac.add_agent()
    (lab, of_lab), (_, elsewhere) = await project(rbac, "lab"), await project(rbac, "shop")
    config = {"config": SINGLE, "activate": False}
    made = await rbac.ok("POST", "/api/v1/experiments", {**config, "projectId": of_lab})
    inside = made["experiment"]["id"]
    here = (await rbac.ok("POST", "/api/v1/experiments", config))["experiment"]["id"]
    body = {"config": {}, "experimentIds": [here, inside]}
    board = (await rbac.ok("POST", URL, body))["tensorboard"]["id"]
    run = {"config": {"entrypoint": ["true"]}}
    command = (await rbac.ok("POST", COMMANDS, run))["command"]["id"]
    await running(rbac, board)
    mine = rbac.token
    other = await rbac.login("determined")
    rbac.token = mine

    async def seen(id_: str, many: str) -> bool:
        listed = await rbac.ok("GET", f"/api/v1/{many}", token=other)
        assert listed["pagination"]["total"] == len(listed[many])
        counts = await rbac.ok("GET", "/api/v1/tasks/count", token=other)
        one = [
            *[await rbac.call("GET", p, token=other) for p in paths(id_, many)],
            *[await rbac.call("GET", p, token=other) for p in paths("absent", many)],
        ]
        found = {answer.status_code for answer in one[:3]}
        assert found in ({200}, {404})
        is_there = found == {200}
        if not is_there:
            told = [answer.text.replace(id_, "absent") for answer in one]
            assert told[:3] == told[3:]
        assert [task["id"] for task in listed[many]] == [id_] * is_there
        assert counts[many] == is_there
        return is_there

    def paths(id_: str, many: str) -> list[str]:
        return [f"/api/v1/{many}/{id_}", f"/api/v1/tasks/{id_}", f"/api/v1/tasks/{id_}/logs"]

    async def both() -> tuple[bool, bool]:
        return await seen(board, "tensorboards"), await seen(command, "commands")

    assert await both() == (False, False)
    await give(rbac, RoleId.EDITOR, 1)
    assert await both() == (False, True)
    for action in ("kill", "set_priority"):
        await rbac.refused(404, "POST", f"{URL}/{board}/{action}", {"priority": 5}, token=other)
    assert (await proxied(rbac, board, other)) == 404
    await give(rbac, RoleId.VIEWER, lab)
    assert await both() == (True, True)
    assert (await proxied(rbac, board, other)) != 404
    move = f"/api/v1/experiments/{inside}/move"
    await rbac.ok("POST", move, {"destinationProjectId": elsewhere})
    assert await both() == (False, True), "where it is now counts"
    await rbac.ok("POST", move, {"destinationProjectId": of_lab})
    await give(rbac, RoleId.EDITOR, 1, take=True)
    await give(rbac, READER, 1)
    assert await both() == (True, False), "permissions for commands do not matter"
    await rbac.refused(403, "POST", f"{URL}/{board}/kill", {}, token=other)


async def proxied(world: ApiWorld, task_id: str, token: str) -> Any:
    answer = await world.call("GET", f"/proxy/{task_id}/", token=token)
    return answer.status_code
