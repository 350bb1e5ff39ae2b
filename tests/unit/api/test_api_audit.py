"""The audit log: a line for every act of administration and every refusal, none with a secret."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from master.api import audit
from master.api.application import ROUTES
from master.api.permits import Permit
from master.auth.actions import Action
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_WORK = frozenset(
    {
        Action.PIN_WORKSPACE,
        Action.CREATE_PROJECT,
        Action.UPDATE_PROJECT,
        Action.DELETE_PROJECT,
        Action.MOVE_PROJECT,
        Action.CREATE_EXPERIMENT,
        Action.PREVIEW_EXPERIMENT,
        Action.PREVIEW_SEARCH,
        Action.UPDATE_EXPERIMENT,
        Action.UPDATE_METADATA,
        Action.END_EXPERIMENT,
        Action.DELETE_EXPERIMENT,
        Action.DELETE_CHECKPOINTS,
        Action.MOVE_EXPERIMENT,
        Action.REPORT,
        Action.CREATE_INTERACTIVE,
        Action.UPDATE_INTERACTIVE,
        Action.UPDATE_JOB,
        Action.CREATE_MODEL,
        Action.UPDATE_MODEL,
        Action.DELETE_MODEL,
        Action.DELETE_MODEL_VERSION,
        Action.USE_SESSION,
        Action.USE_SETTINGS,
    }
)
"""What users do with work of their own: only refusals are in the audit log."""
SEARCHES = {
    Action.VIEW_ARTIFACTS,
    Action.VIEW_CLUSTER,
    Action.VIEW_EXPERIMENTS,
    Action.VIEW_GROUPS,
    Action.VIEW_ROLES,
}
"""What some routes read by POST."""


def changing_routes() -> Iterator[tuple[str, Permit]]:
    for route in ROUTES:
        declared = getattr(route, "permit", None)
        methods = getattr(route, "methods", None) or set()
        if isinstance(declared, Permit) and not methods <= audit.READS:
            yield f"{min(methods)} {getattr(route, 'path', '')}", declared


async def test_each_route_that_changes_something_is_administration_or_work() -> None:
    assert not audit.ADMINISTRATION & (OF_WORK | SEARCHES)
    known = audit.ADMINISTRATION | OF_WORK | SEARCHES | {None}
    assert [name for name, declared in changing_routes() if declared.action not in known] == []


@pytest.mark.parametrize(
    "noun",
    [
        *("/users", "/groups", "/roles", "/tokens", "/sessions", "/templates", "/webhooks"),
        *(
            "/config-policies",
            "/workspace-bindings",
            "/agents",
            "/join-tokens",
            "/master/",
            "/fleet",
        ),
    ],
)
async def test_administration_is_where_its_nouns_are(noun: str) -> None:
    ordinary = {
        "POST /api/v1/users/setting",
        "POST /api/v1/users/setting/reset",
        "POST /api/v1/users/activity",
        "POST /api/v1/webhooks/custom",
        "POST /api/v1/windlass/fleet/plan",
    }
    found = [
        (name, declared.action)
        for name, declared in changing_routes()
        if noun in name and declared.action not in SEARCHES and name not in ordinary
    ]
    assert found
    assert {action for _, action in found} <= audit.ADMINISTRATION, found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiWorld]:
    async with api_world(tmp_path_factory.mktemp("audit")) as world:
        await world.login()
        user = {
            "user": {"username": "eve", "active": True},
            "password": PASSWORD,
            "isHashed": False,
        }
        await world.ok("POST", "/api/v1/users", user)
        yield world


@contextmanager
def written() -> Iterator[list[dict[str, Any]]]:
    """The lines of the audit log."""
    lines: list[dict[str, Any]] = []

    def keep(_: object, __: str, event: Any) -> Any:
        lines.append(dict(event))
        raise structlog.DropEvent

    usual = audit.log
    audit.log = structlog.wrap_logger(None, processors=[keep])
    try:
        yield lines
    finally:
        audit.log = usual


async def test_who_did_what_to_what(shared: ApiWorld) -> None:
    with written() as lines:
        lab = await shared.ok("POST", "/api/v1/workspaces", {"name": "lab"})
        id_ = lab["workspace"]["id"]
        await shared.ok("PATCH", f"/api/v1/workspaces/{id_}", {"name": "laboratory"})
        await shared.ok("GET", f"/api/v1/workspaces/{id_}")
        await shared.ok("POST", "/api/v1/tokens", {"userId": 1})
        await shared.create(SINGLE)
    assert [(line["event"], line["action"], line["target"]) for line in lines] == [
        ("allowed", "create workspace", "cluster"),
        ("allowed", "update workspace", f"workspace {id_}"),
        ("allowed", "create access token", "user 1"),
    ]
    assert {line["by"] for line in lines} == {"admin"}
    changed = lines[1]
    assert changed["request"] == f"PATCH /api/v1/workspaces/{id_}"
    assert changed["workspace"] == id_
    assert changed["login"].startswith("session ")
    assert changed["address"]


async def test_refusals(shared: ApiWorld) -> None:
    experiment = await shared.create(SINGLE)
    mine, eve = shared.token, await shared.login("eve")
    shared.token = mine
    denied = (
        (403, "POST", "/api/v1/groups", {"name": "g"}),
        (403, "GET", "/api/v1/master/config", None),
        (403, "POST", f"/api/v1/experiments/{experiment}/kill", None),
        (403, "POST", "/api/v1/tokens", {"userId": 1}),
    )
    for status, method, path, body in denied:
        with written() as lines:
            await shared.refused(status, method, path, body, token=eve)
        (line,) = lines
        assert (line["event"], line["by"], line["request"]) == ("denied", "eve", f"{method} {path}")


async def test_changes_of_the_queue(shared: ApiWorld) -> None:
    """Each of a batch is decided by itself."""
    ids = [await shared.create(SINGLE) for _ in range(2)]
    jobs = [
        (await shared.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]["jobId"] for id_ in ids
    ]
    mine, eve = shared.token, await shared.login("eve")
    shared.token = mine
    changes = {"updates": [{"jobId": job, "priority": 7} for job in jobs]}
    with written() as lines:
        await shared.refused(403, "POST", "/api/v1/job-queues", changes, token=eve)
    assert [(line["event"], line["target"]) for line in lines] == [
        ("denied", f"job {job}") for job in jobs
    ]


async def test_a_refusal_that_is_not_of_a_permission(shared: ApiWorld) -> None:
    """Who has an access token may not make more of them."""
    token = (await shared.ok("POST", "/api/v1/tokens", {"userId": 1}))["token"]
    with written() as lines:
        await shared.refused(403, "POST", "/api/v1/tokens", {"userId": 1}, token=token)
    assert [line["event"] for line in lines] == ["allowed", "denied"]
    assert lines[1]["login"].startswith("access token ")


async def test_no_line_has_a_secret(shared: ApiWorld) -> None:
    body = {
        "user": {"username": "bob", "active": True},
        "password": "Very-secret-9",
        "isHashed": False,
    }
    with written() as lines:
        await shared.ok("POST", "/api/v1/users", body)
        path = "/api/v1/config-policies/global/EXPERIMENT"
        await shared.ok("PUT", path, {"configPolicies": "constraints: {resources: {max_slots: 7}}"})
    assert len(lines) == 2
    for line in lines:
        assert "secret" not in str(line).lower()
        assert "max_slots" not in str(line)


async def test_a_change_of_role_counts_at_the_next_request(tmp_path: Path) -> None:
    settings = {"authz": {"type": "rbac"}}
    async with api_world(tmp_path, security=settings) as world:
        await world.login()
        user = {
            "user": {"username": "eve", "active": True},
            "password": PASSWORD,
            "isHashed": False,
        }
        eve_id = (await world.ok("POST", "/api/v1/users", user))["user"]["id"]
        mine, eve = world.token, await world.login("eve")
        world.token = mine
        lab = (await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
        assignment = {
            "userRoleAssignments": [
                {
                    "userId": eve_id,
                    "roleAssignment": {"role": {"roleId": 5}, "scopeWorkspaceId": lab},
                }
            ]
        }
        path = f"/api/v1/workspaces/{lab}/projects"
        for number in range(2):
            new = {"name": f"p{number}"}
            with written() as lines:
                await world.refused(404, "POST", path, new, token=eve)
            assert [(line["event"], line["by"]) for line in lines] == [("denied", "eve")]
            with written() as lines:
                await world.ok("POST", "/api/v1/roles/add-assignments", assignment)
            assert [line["action"] for line in lines] == ["assign roles"]
            await world.ok("POST", path, new, token=eve)
            await world.ok("POST", "/api/v1/roles/remove-assignments", assignment)
        seen = await world.ok("GET", "/api/v1/workspaces", token=eve)
        assert seen["workspaces"] == []
