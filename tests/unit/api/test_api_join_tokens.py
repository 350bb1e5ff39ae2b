"""Join tokens over REST, and machines that join with them."""

from __future__ import annotations

from typing import Any

import pytest

from agent_bootstrap.protocol import CREDENTIAL_HEADER, PROTOCOL_VERSION
from tests.fakes.api_world import ApiWorld

PATH = "/api/v1/windlass/join-tokens"
OWN = "c" * 43


async def join(
    world: ApiWorld, token: str, agent_id: str = "node-1", credential: str = OWN, **body: Any
) -> tuple[int, Any]:
    response = await world.call(
        "POST",
        "/api/v1/windlass/join",
        {"agentId": agent_id, "protocol": PROTOCOL_VERSION, "version": "0.1.0", **body},
        token=token,
        headers={CREDENTIAL_HEADER: credential},
    )
    return response.status_code, response.json()


@pytest.mark.slow
async def test_a_token_is_shown_once_and_joins_one_machine(world: ApiWorld) -> None:
    admin = await world.login("admin")
    made = await world.ok("POST", PATH, {"pool": "default", "description": "rack 7"}, token=admin)
    token = made["token"]
    assert made["masterUrl"] == "http://master"
    assert made["joinToken"]["state"] == "usable"
    status, answer = await join(world, token)
    assert status == 200, answer
    assert answer["pool"] == "default"
    assert answer["clusterName"] == "test"
    assert not answer["connected"]
    status, answer = await join(world, token, "node-2", "d" * 43)
    assert status == 403
    assert "spent by agent 'node-1'" in answer["message"]
    listed = await world.call("GET", PATH, token=admin)
    assert token.rpartition("_")[2] not in listed.text
    (shown,) = listed.json()["joinTokens"]
    assert shown["token"] == f"wjt_{shown['id']}_********"
    assert shown["joined"] == ["node-1"]
    assert shown["state"] == "spent"
    assert shown["createdBy"] == "admin"


async def test_a_revoked_token_says_so(world: ApiWorld) -> None:
    admin = await world.login("admin")
    made = await world.ok("POST", PATH, {"anyNumber": True, "untilRevoked": True}, token=admin)
    assert made["joinToken"]["uses"] is None
    assert made["joinToken"]["expiresAt"] is None
    revoked = await world.ok("DELETE", f"{PATH}/{made['joinToken']['id']}", token=admin)
    assert revoked["joinToken"]["state"] == "revoked"
    status, answer = await join(world, made["token"])
    assert status == 403
    assert "revoked at" in answer["message"]
    refused = await world.ok("GET", "/api/v1/windlass/refused-agents", token=admin)
    (agent,) = refused["refused"]
    assert (agent["id"], agent["times"]) == ("node-1", 1)
    assert "revoked" in agent["reason"]


async def test_what_a_machine_says_is_checked(world: ApiWorld) -> None:
    for wrong in ({"agentId": "a\nb"}, {"agentId": ""}, {"protocol": "x"}, {"pool": "p" * 999}):
        status, answer = await join(world, "any", **wrong)
        assert status in (400, 403), (wrong, answer)
    status, answer = await join(world, "any", credential="short")
    assert status == 400
    assert "X-Windlass-Agent-Credential" in answer["message"]


async def test_an_agent_asks_how_it_stands_and_leaves(world: ApiWorld) -> None:
    admin = await world.login("admin")
    made = await world.ok("POST", PATH, {}, token=admin)
    await join(world, made["token"])
    path, own = "/api/v1/windlass/join?agentId=node-1", {CREDENTIAL_HEADER: OWN}
    standing = await world.call("GET", path, token="", headers=own)
    assert standing.json()["member"] is True
    other = await world.call("GET", path, token="", headers={CREDENTIAL_HEADER: "e" * 43})
    assert other.status_code == 403
    leave = "/api/v1/windlass/join/leave"
    left = await world.call("POST", leave, {"agentId": "node-1"}, token="", headers=own)
    assert left.json()["member"] is False
    standing = await world.call("GET", path, token="", headers=own)
    assert standing.status_code == 403
