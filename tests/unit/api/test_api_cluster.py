"""Allocations, agents, pools, queues, fleet; how requests may be written; and how waiting ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from master.allocations.machine import AllocationPhase
from master.api.application import begin_shutdown
from master.api.cluster.description_page import page
from tests.fakes.api_world import ASHA, SINGLE, ApiWorld, api_world
from windlass.base.errors import StoreUnavailable


async def test_rendezvous_waits_for_every_container(world: ApiWorld) -> None:
    await world.add_agent("node-1", slots=2, address="10.0.0.1")
    await world.add_agent("node-2", slots=2, address="10.0.0.2")
    id_ = await world.create(SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 4"))
    run = await world.run_of(id_)
    url = f"/api/v1/allocations/{run.id}"
    token = world.task_token(run)
    calls = [
        asyncio.create_task(
            world.ok("GET", f"{url}/resources/{c.container.container_id}/rendezvous", token=token)
        )
        for c in run.containers
    ]
    infos = [(await call)["rendezvousInfo"] for call in calls]
    assert sorted(info["rank"] for info in infos) == [0, 1]
    assert {tuple(info["slots"]) for info in infos} == {(2, 2)}
    assert {frozenset(info["addresses"]) for info in infos} == {frozenset({"10.0.0.1", "10.0.0.2"})}
    task = (await world.ok("GET", f"/api/v1/tasks/{run.task_id}"))["task"]
    assert task["allocations"][0]["isReady"] is True
    await world.refused(404, "GET", f"{url}/resources/other/rendezvous", token=token)

    async def gather(peer: int) -> Any:
        body = {"requestUuid": f"u{peer}", "numPeers": 2, "data": {"rank": peer}}
        return await world.ok("POST", f"{url}/all_gather", body, token=token)

    first, second = await asyncio.gather(gather(0), gather(1))
    assert sorted(d["rank"] for d in first["data"]) == [0, 1]
    assert sorted(d["rank"] for d in second["data"]) == [0, 1]


async def test_a_preemption_reaches_the_one_who_polls(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run = await world.run_of(id_)
    token = world.task_token(run)
    url = f"/api/v1/allocations/{run.id}"
    await world.ok("POST", f"{url}/ready", token=token)
    signal = f"{url}/signals/preemption"
    assert await world.ok("GET", f"{signal}?timeout_seconds=0", token=token) == {"preempt": False}
    polling = asyncio.create_task(world.ok("GET", f"{signal}?timeout_seconds=60", token=token))
    await world.ok("POST", f"/api/v1/experiments/{id_}/pause")
    asked = {"preempt": True, "reason": "the experiment was paused"}
    assert await polling == {**asked, "deadline": "2026-01-01T01:00:00.000000Z"}
    await world.ok("POST", f"{url}/signals/ack_preemption", token=token)
    await world.finish(run)
    state = (await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]["state"]
    assert state == "STATE_PAUSED"
    assert await world.ok("GET", f"{signal}?timeout_seconds=60") == {"preempt": False}


async def test_the_small_calls_of_containers(world: ApiWorld) -> None:
    await world.add_agent()
    run = await world.run_of(await world.create())
    token = world.task_token(run)
    url = f"/api/v1/allocations/{run.id}"
    data = {"containerId": "c", "nodeName": "n", "acceleratorType": "cpu", "acceleratorUuids": []}
    for _ in range(2):
        body = {"allocationId": run.id, "acceleratorData": data}
        await world.ok("POST", f"{url}/acceleratorData", body, token=token)
    assert await world.ok("POST", f"{url}/notify_container_running", {}, token=token) == {
        "data": []
    }
    assert await world.ok("POST", f"{url}/ready", token=token) == {"endsAt": None}
    for path in ("proxy_address", "waiting", "signals/pending_preemption"):
        assert await world.ok("POST", f"{url}/{path}", token=token) == {}
    signal = f"{url}/signals/preemption?timeout_seconds=0"
    assert (await world.ok("GET", signal, token=token))["preempt"] is True
    container = run.containers[0].container.container_id
    await world.ok("POST", f"{url}/resources/{container}/daemon", token=token)
    await world.refused(404, "POST", f"{url}/resources/other/daemon", token=token)
    await world.refused(404, "POST", "/api/v1/allocations/no.such.1/ready")


async def test_a_held_request_ends_when_its_client_goes(world: ApiWorld) -> None:
    await world.add_agent()
    run = await world.run_of(await world.create())
    sent: list[MutableMapping[str, Any]] = []
    watching, gone = asyncio.Event(), asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        watching.set()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "GET",
        "path": f"/api/v1/allocations/{run.id}/signals/preemption",
        "raw_path": b"",
        "query_string": b"timeout_seconds=600",
        "headers": [(b"authorization", f"Bearer {world.token}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("m", 80),
        "scheme": "http",
        "http_version": "1.1",
    }
    held = asyncio.create_task(world.app(scope, receive, send))
    await watching.wait()
    assert not held.done()
    gone.set()
    await held
    assert sent[0]["status"] == 503


async def test_everything_held_ends_when_the_server_stops(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run, trial = await world.run_of(id_), world.trial_id(id_)
    poll = f"/api/v1/allocations/{run.id}/signals/preemption?timeout_seconds=600"
    polling = asyncio.create_task(world.refused(503, "GET", poll))
    logs = f"/api/v1/trials/{trial}/logs?follow=true"
    following = asyncio.create_task(world.call("GET", logs))
    await world.ok("GET", "/api/v1/me")
    begin_shutdown(world.app)
    assert "stopping" in await polling
    last = (await following).text.splitlines()[-1]
    assert '"httpCode":503' in last


async def test_agents_are_listed_and_taken_out_of_service(world: ApiWorld) -> None:
    await world.add_agent(slots=2)
    run = await world.run_of(await world.create())
    (agent,) = (await world.ok("GET", "/api/v1/agents"))["agents"]
    assert (agent["id"], agent["enabled"], agent["resourcePools"]) == ("node-1", True, ["default"])
    (container,) = agent["containers"].values()
    assert container["parent"] == run.id
    assert [slot["container"] is not None for slot in agent["slots"].values()].count(True) == 1
    lean = await world.ok("GET", "/api/v1/agents?excludeSlots=true&exclude_containers=true")
    assert (lean["agents"][0]["slots"], lean["agents"][0]["containers"]) == ({}, {})
    drained = await world.ok("POST", "/api/v1/agents/node-1/disable", {"drain": True})
    assert (drained["agent"]["enabled"], drained["agent"]["draining"]) == (False, True)
    enabled = await world.ok("POST", "/api/v1/agents/node-1/enable")
    assert enabled["agent"]["enabled"] is True
    await world.refused(404, "POST", "/api/v1/agents/nowhere/enable")


async def test_an_agent_is_forgotten_by_administrators_only_and_by_force_while_it_is_connected(
    world: ApiWorld,
) -> None:
    agent = await world.add_agent(slots=2)
    agent.reconnect_s = 10_000
    run = await world.run_of(await world.create())
    path = "/api/v1/windlass/agents/node-1"
    token = world.token
    await world.login("determined")
    await world.refused(403, "DELETE", f"{path}?force=true")
    world.token = token
    assert "is connected" in await world.refused(409, "DELETE", path)
    assert agent.connected
    assert await world.ok("DELETE", f"{path}?force=true") == {"lostAllocations": [run.id]}
    await world.refused(404, "DELETE", path)
    assert (await world.ok("GET", "/api/v1/agents"))["agents"] == []
    await agent.until(lambda: not agent.connected)


async def test_single_slots_are_shown_and_taken_out_of_service(world: ApiWorld) -> None:
    agent = await world.add_agent(slots=2, labels=("rack=a12", "loud"))
    run = await world.run_of(await world.create())
    (container,) = run.containers
    slots = (await world.ok("GET", "/api/v1/agents/node-1/slots"))["slots"]
    assert [(s["id"], s["enabled"], s["draining"]) for s in slots] == [
        ("0", True, False),
        ("1", True, False),
    ]
    assert slots[0]["container"]["id"] == container.container.container_id
    body = {"agentId": "node-1", "slotId": "0", "drain": True}
    drained = await world.ok("POST", "/api/v1/agents/node-1/slots/0/disable", body)
    assert (drained["slot"]["enabled"], drained["slot"]["draining"]) == (False, True)
    assert list(agent.containers) == [container.container.container_id]
    enabled = await world.ok("POST", "/api/v1/agents/node-1/slots/0/enable")
    assert (enabled["slot"]["enabled"], enabled["slot"]["draining"]) == (True, False)

    disabled = await world.ok("POST", "/api/v1/agents/node-1/slots/1/disable")
    assert disabled["slot"]["enabled"] is False
    assert await world.ok("GET", "/api/v1/agents/node-1/slots/1") == disabled
    shown = (await world.ok("GET", "/api/v1/agents/node-1"))["agent"]
    assert (shown["enabled"], shown["labels"]) == (True, ["rack=a12", "loud"])
    assert shown["slots"] == {
        "0": {**slots[0], "container": shown["slots"]["0"]["container"]},
        "1": disabled["slot"],
    }
    assert shown["slotStats"]["typeStats"]["TYPE_CPU"]["disabled"] == 1

    for slot in ("2", "-1", "00", "x"):
        path = f"/api/v1/agents/node-1/slots/{slot}"
        for method, of in (("GET", path), ("POST", f"{path}/enable"), ("POST", f"{path}/disable")):
            message = await world.refused(404, method, of)
            assert message == f"agent 'node-1': slot '{slot}' not found"
    await world.refused(404, "GET", "/api/v1/agents/nowhere/slots")
    await world.refused(404, "POST", "/api/v1/agents/nowhere/slots/0/disable")


async def test_a_trial_whose_slot_is_disabled_goes_on_elsewhere_at_no_cost(
    world: ApiWorld,
) -> None:
    await world.add_agent(slots=2)
    experiment = await world.create(SINGLE.replace("max_restarts: 2", "max_restarts: 0"))
    first = await world.run_of(experiment)
    assert first.containers[0].container.slot_ids == (0,)
    await world.ok("POST", "/api/v1/agents/node-1/slots/0/disable")
    live = world.services.experiments.live(experiment)
    assert live is not None

    def moved(_: object) -> bool:
        (trial,) = live.state.trials.values()
        run = trial.open_allocation
        return run is not None and run.id != first.id and run.phase is AllocationPhase.RUNNING

    await live.wait_until(moved)
    second = await world.run_of(experiment)
    assert second.containers[0].container.slot_ids == (1,)
    trial = (await world.ok("GET", f"/api/v1/trials/{world.trial_id(experiment)}"))["trial"]
    assert (trial["state"], trial["restarts"]) == ("STATE_RUNNING", 0)


@pytest.mark.slow
async def test_queues_pools_and_reasons(world: ApiWorld) -> None:
    await world.add_agent(slots=1)
    first, second = await world.create(), await world.create()
    run = await world.run_of(first)
    jobs = (await world.ok("GET", "/api/v1/job-queues-v2"))["jobs"]
    entries = [(j["full"]["entityId"], j["full"]["summary"]) for j in jobs]
    assert entries == [
        (str(first), {"state": "STATE_SCHEDULED", "jobsAhead": -1}),
        (str(second), {"state": "STATE_QUEUED", "jobsAhead": -1}),
    ]
    queued = await world.ok("GET", "/api/v1/job-queues-v2?states=STATE_QUEUED")
    assert [j["full"]["entityId"] for j in queued["jobs"]] == [str(second)]
    (pool,) = (await world.ok("GET", "/api/v1/windlass/pools"))["pools"]
    assert (pool["slotsTotal"], pool["slotsUsed"], pool["slotsFree"]) == (1, 1, 0)
    (waiting,) = pool["waiting"]
    assert waiting["reason"]["kind"] == "needs_capacity"
    reasons = await world.ok("GET", f"/api/v1/windlass/experiments/{second}/reasons")
    assert reasons["reasons"][str(world.trial_id(second))] == waiting["reason"]
    why = await world.ok("GET", f"/api/v1/windlass/allocations/{waiting['allocationId']}/reason")
    assert why["reason"] == waiting["reason"]
    why = await world.ok("GET", f"/api/v1/windlass/allocations/{run.id}/reason")
    assert why == {"reason": None}
    tasks = (await world.ok("GET", "/api/v1/tasks"))["allocationIdToSummary"]
    assert tasks[waiting["allocationId"]]["resources"] is None
    (resources,) = tasks[run.id]["resources"]
    assert list(resources["agentDevices"]) == ["node-1"]
    old = (await world.ok("GET", "/tasks"))[run.id]
    assert (old["task_id"], old["allocation_id"]) == (run.task_id, run.id)
    assert old["name"] == tasks[run.id]["name"]
    assert list(old["resources"][0]["agent_devices"]) == ["node-1"]
    (pool,) = (await world.ok("GET", "/api/v1/resource-pools"))["resourcePools"]
    assert (pool["slotsUsed"], pool["defaultComputePool"]) == (1, True)


async def test_the_fleet_and_its_cost(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        fleet = await world.ok("GET", "/api/v1/windlass/fleet")
        (instance,) = fleet["instances"]
        assert (instance["id"], instance["activity"], instance["ageS"]) == ("i-1", "booting", 10.0)
        assert (fleet["usd"], fleet["peakInstances"], fleet["alwaysOnUsd"]) == (0.25, 3, 6.0)
        (refused,) = fleet["blockedOffers"]
        assert (refused["offer"]["instanceType"], refused["reason"]) == ("spot", "no capacity")
        assert refused["until"].endswith("Z")
        (pool,) = (await world.ok("GET", "/api/v1/windlass/pools"))["pools"]
        assert (pool["slotsLaunching"], pool["instancesLaunching"]) == (8, 1)


async def test_a_cluster_without_machines_of_its_own_has_no_cost(world: ApiWorld) -> None:
    fleet = await world.ok("GET", "/api/v1/windlass/fleet")
    assert (fleet["instances"], fleet["blockedOffers"], fleet["usd"]) == ([], [], 0.0)


async def test_rungs_are_the_same_from_memory_and_from_the_log(world: ApiWorld) -> None:
    await world.add_agent(slots=4)
    id_ = await world.create(ASHA)
    for index in range(4):
        await world.run_of(id_, index)
        await world.report(world.trial_id(id_, index), "validation", 4, loss=index, epochs=4)
    url = f"/api/v1/windlass/experiments/{id_}/searcher"
    live = await world.ok("GET", url)
    assert (live["searcher"], live["brackets"]) == ("async_halving", 1)
    lowest = live["rungs"][0]
    assert [e["trialId"] for e in lowest["entries"]] == [world.trial_id(id_, n) for n in range(4)]
    assert [e["metric"] for e in lowest["entries"]] == [0.0, 1.0, 2.0, 3.0]
    view = await world.app.state.api.reads.searches.search(id_, None)
    stored = [[e.request_id for e in rung.entries] for rung in view.rungs]
    assert stored == [[e["requestId"] for e in rung["entries"]] for rung in live["rungs"]]


async def test_how_requests_may_be_written(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())
    url = f"/api/v1/trials/{trial}/progress"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for content, headers in (
        (b'{"progress": 0.5, "is_raw": true}', {}),
        (b'{"progress": "0.5", "isRaw": null, "extra": 1}', form),
    ):
        await world.ok("POST", url, content=content, headers=headers)
    await world.ok("POST", f"{url}/", content=b"{}")
    await world.ok("GET", "/api/v1/experiments/")
    for path in ("/api/v1/no/such/thing", "/stream"):
        said = await world.refused(501, "GET", path)
        assert said == f"GET {path} is not implemented in this version of Windlass"
    await world.refused(501, "DELETE", "/api/v1/master")
    await world.refused(404, "POST", "/proxy/a/api/kernels", content=b"{}")
    await world.refused(404, "GET", "/elsewhere")
    for unknown in ("one", "search", "metrics", "1/nothing", "1/trials/x", "-"):
        await world.refused(501, "GET", f"/api/v1/experiments/{unknown}")
    await world.refused(501, "POST", "/api/v1/trials/metrics/kill")
    await world.refused(501, "GET", "/api/v1/users/nobody")
    await world.refused(400, "GET", f"/api/v1/trials/{10**30}")
    assert "not valid JSON" in await world.refused(400, "POST", url, content=b"{")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_has_a_limit(world: ApiWorld, chunked: bool) -> None:
    large = b"x" * (8 * 1024 * 1024 + 1)

    async def chunks() -> Any:
        yield large

    content: Any = chunks() if chunked else large
    message = await world.refused(413, "POST", "/api/v1/task/logs", content=content)
    assert "8 MiB" in message
    message = await world.refused(400, "POST", "/api/v1/experiments", content=large)
    assert "8 MiB" not in message


async def test_users_and_workspaces(world: ApiWorld) -> None:
    users = (await world.ok("GET", "/api/v1/users?name=DET"))["users"]
    assert [u["username"] for u in users] == ["determined"]
    one = await world.ok("GET", "/api/v1/users/determined/by-username")
    assert one["user"]["id"] == users[0]["id"]
    await world.create(activate=False)
    for query, found in (("name=uncategorized", 1), ("nameCaseSensitive=uncategorized", 0)):
        listed = await world.ok("GET", f"/api/v1/workspaces?{query}")
        assert len(listed["workspaces"]) == found
    (project,) = (await world.ok("GET", "/api/v1/workspaces/1/projects"))["projects"]
    assert (project["numExperiments"], project["numActiveExperiments"]) == (1, 1)
    past = await world.ok("GET", "/api/v1/workspaces?limit=1&offset=1")
    assert past["workspaces"] == []


@pytest.mark.slow
async def test_who_the_master_is_needs_no_token(world: ApiWorld) -> None:
    assert (await world.ok("GET", "/info", token=""))["version"] == "0.38.1"
    assert (await world.ok("GET", "/api/v1/master", token=""))["clusterId"] == "cluster"
    assert await world.ok("GET", "/api/v1/master/telemetry", token="") == {"enabled": False}
    document = await world.ok("GET", "/api/v1/openapi.json", token="")
    assert document["info"]["title"] == "Windlass"
    assert await world.ok("GET", "/openapi.json", token="") == document
    ids = [op["operationId"] for ops in document["paths"].values() for op in ops.values()]
    assert len(ids) == len(set(ids)) > 90


@pytest.mark.slow
async def test_the_page_of_the_api_shows_every_operation_and_loads_nothing(world: ApiWorld) -> None:
    response = await world.call("GET", "/docs/rest-api", token="")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    for path, operations in world.app.openapi()["paths"].items():
        for method in operations:
            assert f"<b>{method.upper()}</b><code>{path}</code>" in response.text
    for foreign in ("<script", "src=", "http://", "https://"):
        assert foreign not in response.text
    for anchor in set(re.findall(r"href='#(\w+)'", response.text)):
        assert f"id='{anchor}'" in response.text


def test_what_a_document_says_is_escaped() -> None:
    operation = {"tags": ["<i>"], "description": "<script>", "responses": {}}
    document = {
        "info": {"title": "<b>", "version": "1"},
        "paths": {"/<path>": {"get": operation}},
    }
    html = page(document)
    for raw in ("<i>", "<script>", "<title><b>", "/<path>"):
        assert raw not in html


async def test_health_is_up_until_the_database_or_the_server_goes(world: ApiWorld) -> None:
    up = {"status": "up", "database": "up", "version": "0.38.1"}
    assert await world.ok("GET", "/health", token="") == up

    async def broken() -> None:
        raise StoreUnavailable("disk full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.services.store, "ping", broken)
        response = await world.call("GET", "/health", token="")
    assert response.status_code == 503
    assert response.json() == {**up, "status": "down", "database": "down"}
    begin_shutdown(world.app)
    response = await world.call("GET", "/health", token="")
    assert (response.status_code, response.json()) == (503, {**up, "status": "down"})


async def test_a_pool_says_what_it_buys(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        (pool,) = (await world.ok("GET", "/api/v1/resource-pools"))["resourcePools"]
        assert (pool["instanceType"], pool["preemptible"]) == ("gpu-8", True)
        assert (pool["slotsPerAgent"], pool["imageId"]) == (8, "img-1")
