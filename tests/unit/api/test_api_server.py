"""Over a real server and real sockets: the agents' WebSocket, and long polls when the server stops."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
import websockets.asyncio.client as sockets
from pydantic import SecretStr
from websockets.exceptions import InvalidStatus

from agent_bootstrap.agent.connection.websocket import connect
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.protocol import Channel
from tests.fakes.agents_world import TOKEN
from tests.fakes.api_world import ApiWorld
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.served_api import Served, served
from windlass.base.errors import PermissionDenied


def an_agent(world: ApiWorld, url: str, token: str) -> FakeAgent:
    options = AgentOptions(
        master_url=url, agent_id="node-1", resource_pool="default", join_token=SecretStr(token)
    )

    async def dial() -> Channel:
        return await connect(options, "its-own-credential")

    agent = FakeAgent(agent_id="node-1", dial=dial, clock=world.clock)
    world.agents[agent.agent_id] = agent
    return agent


async def test_an_agent_connects_with_its_join_token_and_runs_a_task(world: ApiWorld) -> None:
    async with served(world) as server:
        agent = an_agent(world, server.url, TOKEN)
        life = world.tasks.create_task(agent.run())
        run = await world.run_of(await world.create())
        assert run.containers[0].container.agent_id == "node-1"
        (view,) = (await world.ok("GET", "/api/v1/agents"))["agents"]
        assert view["connected"] is True
        await world.finish(run)
        await agent.die()
        await life


async def test_an_agent_with_another_token_is_refused(world: ApiWorld) -> None:
    async with served(world) as server:
        agent = an_agent(world, server.url, "wrong")
        with pytest.raises(PermissionDenied, match="check the join token"):
            await agent.dial()
    assert (await world.ok("GET", "/api/v1/agents"))["agents"] == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/v1/x", 501, "WebSocket /api/v1/x is not implemented in this version of Windlass"),
        ("/stream", 401, "token missing"),
        ("/proxy/a.1/?x=1", 404, "service not found: a.1"),
    ],
)
async def test_a_websocket_that_is_not_there_is_refused_in_words(
    world: ApiWorld, path: str, status: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(world) as server:
        with pytest.raises(InvalidStatus) as refused:
            await sockets.connect(server.url.replace("http:", "ws:") + path, proxy=None)
        with pytest.raises(InvalidStatus, match="403"):
            await sockets.connect(server.url.replace("http:", "ws:") + "/elsewhere", proxy=None)
    answer = refused.value.response
    assert (answer.status_code, json.loads(answer.body)["message"]) == (status, said)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_stopping_the_server_answers_who_waits(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    await world.ok("POST", "/api/v1/task/logs", {"logs": [{"taskId": run.task_id, "log": "x"}]})
    headers = {"Authorization": f"Bearer {world.token}"}
    server = Served(world)
    await server.start()
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
        poll = f"/api/v1/allocations/{run.id}/signals/preemption?timeout_seconds=600"
        polling = asyncio.create_task(client.get(poll))
        async with client.stream("GET", f"/api/v1/trials/{trial}/logs?follow=true") as stream:
            lines = stream.aiter_lines()
            assert "result" in await anext(lines)
            stopping = asyncio.create_task(server.stop())
            rest = [line async for line in lines]
        assert '"httpCode":503' in rest[-1]
        assert (await polling).status_code == 503
        await stopping


async def test_a_client_that_leaves_a_followed_log_is_not_served_any_more(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    await world.ok("POST", "/api/v1/task/logs", {"logs": [{"taskId": run.task_id, "log": "x"}]})
    headers = {"Authorization": f"Bearer {world.token}"}
    async with served(world) as server:
        async with (
            httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client,
            client.stream("GET", f"/api/v1/trials/{trial}/logs?follow=true") as stream,
        ):
            assert "result" in await anext(stream.aiter_lines())
            (serving,) = server._server.server_state.tasks
        await serving
