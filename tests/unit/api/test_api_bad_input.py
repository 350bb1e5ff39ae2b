"""Wrong requests about what people share: each answer names the field, the value and what would be right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes.api_world import PASSWORD, ApiWorld, api_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

BY_ID = (
    ("GET", "/api/v1/workspaces/{}", "id"),
    ("PATCH", "/api/v1/workspaces/{}", "id"),
    ("DELETE", "/api/v1/workspaces/{}", "id"),
    ("GET", "/api/v1/projects/{}", "id"),
    ("POST", "/api/v1/projects/{}/move", "project_id"),
    ("GET", "/api/v1/groups/{}", "group_id"),
    ("DELETE", "/api/v1/groups/{}", "group_id"),
    ("GET", "/api/v1/users/{}", "user_id"),
    ("PATCH", "/api/v1/users/{}", "user_id"),
    ("PATCH", "/api/v1/tokens/{}", "access_token_id"),
    ("DELETE", "/api/v1/webhooks/{}", "webhook_id"),
    ("PATCH", "/api/v1/webhooks/{}", "webhook_id"),
    ("GET", "/api/v1/roles/search/by-user/{}", "user_id"),
    ("GET", "/api/v1/workspaces/{}/projects", "id"),
)
NO_IDS = ("-1", "9223372036854775808", "1" * 5000)
USER = {"user": {"username": "ann", "active": True}, "password": PASSWORD, "isHashed": False}
TWICE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("/api/v1/workspaces", "lab", {"name": "lab"}),
    ("/api/v1/groups", "crew", {"name": "crew"}),
    ("/api/v1/models", "net", {"name": "net"}),
    ("/api/v1/templates/base", "base", {"config": {}}),
    ("/api/v1/users", "ann", USER),
    ("/api/v1/workspaces/1/projects", "vision", {"name": "vision"}),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiWorld]:
    async with api_world(tmp_path_factory.mktemp("bad"), security={"authz": {"type": "rbac"}}) as w:
        await w.login()
        yield w


@pytest.mark.parametrize(("method", "path", "name"), BY_ID)
async def test_an_id_that_is_none_is_named(
    shared: ApiWorld, method: str, path: str, name: str
) -> None:
    for value in NO_IDS:
        said = await shared.refused(400, method, path.format(value), {})
        assert name in said, value
        assert repr(value[:100])[:-1] in said, "the value"
        assert "number" in said or "integer" in said or "than or equal" in said, said
        assert len(said) < 500
    said = await shared.refused(501, method, path.format("seven"), {})
    assert path.format("seven") in said, "what is no number is another path, that nobody knows"


@pytest.mark.parametrize(("path", "name", "body"), TWICE)
async def test_a_name_is_given_once(
    shared: ApiWorld, path: str, name: str, body: dict[str, Any]
) -> None:
    calls = (shared.call("POST", path, body) for _ in range(5))
    answers = await asyncio.gather(*calls)
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409, 409]
    assert name in await shared.refused(409, "POST", path, body)


async def test_ten_megabytes_are_refused(shared: ApiWorld) -> None:
    content = b'{"name": "' + b"x" * 10_000_000 + b'"}'
    for method, path in (
        *(("POST", path) for path, _, _ in TWICE),
        ("POST", "/api/v1/webhooks"),
        ("POST", "/api/v1/roles/add-assignments"),
        ("PUT", "/api/v1/config-policies/global/EXPERIMENT"),
        ("PUT", "/api/v1/groups/1"),
        ("PATCH", "/api/v1/workspaces/1"),
    ):
        assert "8 MiB" in await shared.refused(413, method, path, content=content)


async def test_numbers_of_bodies_are_named(shared: ApiWorld) -> None:
    for value in (-1, 2**31, 2**63, 1.5):
        body = {"name": "n", "url": "https://x.example.org", "workspaceId": value}
        said = await shared.refused(400, "POST", "/api/v1/webhooks", body)
        assert "workspaceId" in said
        assert str(value) in said
