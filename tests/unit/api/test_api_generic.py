"""Generic tasks over REST: created and forked, paused and killed, what is refused, and who may do what."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from master.allocations.machine import AllocationPhase, AllocationState
from master.tasks.live import LiveTask
from tests.fakes.api_world import PASSWORD, ApiWorld, file

URL = "/api/v1/generic-tasks"


async def create(world: ApiWorld, config: str = "entrypoint: [sleep, '60']", **body: Any) -> str:
    """As the published client sends it."""
    token = body.pop("token", None)
    sent = {"config": config, "contextDirectory": [], "forkedFrom": None, **body}
    return str((await world.ok("POST", URL, sent, token=token))["taskId"])


def live_of(world: ApiWorld, task_id: str) -> LiveTask:
    live = world.services.tasks.live(task_id)
    assert live is not None
    return live


async def running(world: ApiWorld, task_id: str) -> AllocationState:
    state = await live_of(world, task_id).wait_until(
        lambda s: (
            s.open_allocation is not None and s.open_allocation.phase is AllocationPhase.RUNNING
        )
    )
    assert state.allocation is not None
    return state.allocation


async def look(world: ApiWorld, task_id: str, **options: Any) -> Any:
    return (await world.ok("GET", f"/api/v1/tasks/{task_id}", **options))["task"]


async def act(world: ApiWorld, task_id: str, what: str, **body: Any) -> None:
    assert await world.ok("POST", f"/api/v1/tasks/{task_id}/{what}", body or None) == {}


async def state_of(world: ApiWorld, task_id: str) -> str:
    return str((await look(world, task_id))["taskState"]).removeprefix("GENERIC_TASK_STATE_")


async def user(world: ApiWorld, name: str) -> str:
    body = {"user": {"username": name, "active": True}, "password": PASSWORD}
    await world.ok("POST", "/api/v1/users", body)
    login = {"username": name, "password": PASSWORD}
    return str((await world.ok("POST", "/api/v1/auth/login", login, token=""))["token"])


async def test_a_task_is_shown_with_what_is_its_own(world: ApiWorld) -> None:
    parent = await create(world, "entrypoint: [a]\nresources: {slots: 0}", projectId=1)
    child = await create(
        world,
        "resources: {slots: 1}",
        forkedFrom=parent,
        parentId=parent,
        noPause=True,
    )
    shown = await look(world, child)
    assert (shown["taskType"], shown["taskState"]) == (
        "TASK_TYPE_GENERIC",
        "GENERIC_TASK_STATE_ACTIVE",
    )
    assert (shown["parentId"], shown["forkedFrom"], shown["noPause"]) == (parent, parent, True)
    config = {"entrypoint": ["a"], "resources": {"slots": 1}}
    assert json.loads(shown["config"]) == config
    got = await world.ok("GET", f"/api/v1/tasks/{child}/config")
    assert json.loads(got["config"]) == config
    first = await look(world, parent)
    assert (first["parentId"], first["forkedFrom"], first["noPause"]) == (None, None, False)
    names = (await world.ok("GET", "/api/v1/tasks"))["allocationIdToSummary"]
    assert names[f"{child}.1"]["name"] == f"Generic Task {child}"
    jobs = (await world.ok("GET", "/api/v1/job-queues-v2?resourcePool=default"))["jobs"]
    assert {job["full"]["type"] for job in jobs if "full" in job} == {"TYPE_GENERIC"}


async def test_its_files_are_its_context(world: ApiWorld) -> None:
    parent = await create(world, contextDirectory=[file("run.sh", b"true")])
    child = await create(world, parentId=parent, inheritContext=True)
    url = "/api/v1/tasks/{}/context_directory"
    sent = (await world.ok("GET", url.format(parent)))["b64Tgz"]
    assert base64.b64decode(sent)
    assert (await world.ok("GET", url.format(child)))["b64Tgz"] == sent


async def test_a_task_that_asks_is_told_to_leave_and_goes_on_later(world: ApiWorld) -> None:
    await world.add_agent()
    task = await create(world)
    run = await running(world, task)
    token, signals = world.mint.token(run.id), f"/api/v1/allocations/{run.id}/signals"
    asked = f"{signals}/preemption?timeoutSeconds=0"
    assert not (await world.ok("GET", asked))["preempt"], "asked by its owner: it does not listen"
    assert not live_of(world, task).state.allocation.preemptible  # type: ignore[union-attr]
    assert not (await world.ok("GET", asked, token=token))["preempt"]
    await act(world, task, "pause")
    assert await state_of(world, task) == "STOPPING_PAUSED"
    told = await world.ok("GET", asked, token=token)
    assert (told["preempt"], told["reason"]) == (True, "paused by admin")
    await world.ok("POST", f"{signals}/ack_preemption", {}, token=token)
    box = run.containers[0].container
    world.agents[box.agent_id].exit(box.container_id, 0)
    await live_of(world, task).wait_until(lambda state: state.open_allocation is None)
    assert await state_of(world, task) == "PAUSED"
    assert (await look(world, task))["endTime"] is None
    await act(world, task, "unpause")
    again = await running(world, task)
    assert again.id == f"{task}.2"
    assert await state_of(world, task) == "ACTIVE"
    box = again.containers[0].container
    world.agents[box.agent_id].exit(box.container_id, 0)
    await live_of(world, task).wait_until(lambda state: state.is_over)
    ended = await look(world, task)
    assert ended["taskState"] == "GENERIC_TASK_STATE_COMPLETED"
    assert [one["allocationId"] for one in ended["allocations"]] == [f"{task}.2", f"{task}.1"]


async def test_a_kill_takes_the_tree(world: ApiWorld) -> None:
    parent = await create(world)
    child = await create(world, parentId=parent)
    await act(world, child, "kill", taskId=child, killFromRoot=True)
    assert [await state_of(world, id_) for id_ in (parent, child)] == ["CANCELED", "CANCELED"]
    url = f"/api/v1/tasks/{child}/kill"
    text = f"cannot cancel task {child} as it is in state CANCELED"
    assert text in await world.refused(400, "POST", url, {})
    assert "was killed" in await world.refused(
        400, "POST", URL, {"config": "entrypoint: x", "parentId": parent}
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", ["config", "kill", "pause", "unpause"])
async def test_other_tasks_are_not_generic(world: ApiWorld, path: str) -> None:
    body = {"config": {"entrypoint": ["true"]}}
    command = (await world.ok("POST", "/api/v1/commands", body))["command"]["id"]
    method = "GET" if path == "config" else "POST"
    for id_ in (command, "nobody"):
        said = await world.refused(404, method, f"/api/v1/tasks/{id_}/{path}")
        assert id_ in said
        assert "(make sure task is of type GENERIC)" in said
    assert "taskState" not in await look(world, command)


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"config": ""}, ["No config file nor forked task provided"]),
    ({"config": "[1]"}, ["<config>: must be a mapping"]),
    ({"config": "a: {"}, ["<config>"]),
    ({"config": "{}"}, ["entrypoint"]),
    ({"config": "entrypoint: []"}, ["entrypoint: must not be empty"]),
    (
        {"config": "entrypoint: x\nidle_timeout: 5m\nresources: {slots: -1, slots_per_trial: 2}"},
        ["idle_timeout", "resources.slots", 'a generic task has "slots"'],
    ),
    ({"config": "entrypoint: x\npreemption_timeout: soon"}, ["preemption_timeout"]),
    (
        {"config": "entrypoint: x\nresources: {resource_pool: nowhere}"},
        ["resource_pool", "default"],
    ),
    (
        {
            "config": "entrypoint: x\nenvironment: {proxy_ports: [{proxy_port: 0}, {proxy_port: 70000}]}"
        },
        ["proxy_ports[0]", "proxy_ports[1]"],
    ),
    ({"config": "entrypoint: x", "inheritContext": True}, ["inheritContext: needs parentId"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("body", "says"), REFUSED)
async def test_what_cannot_be_is_refused_with_every_problem(
    world: ApiWorld, body: dict[str, Any], says: list[str]
) -> None:
    await world.add_agent()
    said = await world.refused(400, "POST", URL, body)
    assert [text for text in says if text not in said] == []


async def test_more_slots_than_an_agent_has_need_several_of_them(world: ApiWorld) -> None:
    await world.add_agent("one", slots=2)
    await world.add_agent("two", slots=2)
    config = "entrypoint: x\nresources: {slots: 4, is_single_node: %s}"
    await world.refused(400, "POST", URL, {"config": config % "true"})
    task = await create(world, config % "false")
    run = await running(world, task)
    assert sorted(one.container.agent_id for one in run.containers) == ["one", "two"]


async def test_projects_that_are_not_there_or_archived(world: ApiWorld) -> None:
    await world.refused(404, "POST", URL, {"config": "entrypoint: x", "projectId": 77})


async def test_who_may_do_what(world: ApiWorld) -> None:
    secret = "entrypoint: x\nenvironment: {environment_variables: ['KEY=hunter2']}"
    task = await create(world, secret)
    eve = await user(world, "eve")
    for path in ("kill", "pause", "unpause"):
        said = await world.refused(403, "POST", f"/api/v1/tasks/{task}/{path}", {}, token=eve)
        assert f"generic task {task} belongs to" in said
    shown = await world.ok("GET", f"/api/v1/tasks/{task}/config", token=eve)
    assert "hunter2" not in json.dumps([shown, await look(world, task, token=eve)])
    assert "hunter2" in (await world.ok("GET", f"/api/v1/tasks/{task}/config"))["config"]
    body = {"config": "entrypoint: x", "parentId": task}
    await world.refused(403, "POST", URL, body, token=eve)
    own = await create(world, "environment: {}", forkedFrom=task, token=eve)
    assert live_of(world, own).owner_name == "eve"


async def test_keys_without_effect_are_told(world: ApiWorld) -> None:
    sent = {"config": "entrypoint: x\ndebug: true"}
    told = await world.ok("POST", URL, sent)
    assert told["warnings"] == ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"], "there is no agent"
    assert "debug" in told["configWarnings"][0]


async def test_a_list_has_those_that_are_paused_and_on_request_those_that_are_over(
    world: ApiWorld,
) -> None:
    async def listed(query: str = "", **options: Any) -> dict[str, dict[str, Any]]:
        answer = await world.ok("GET", f"/api/v1/windlass/generic-tasks{query}", **options)
        assert answer["pagination"]["total"] == len(answer["tasks"])
        return {one["taskId"]: one for one in answer["tasks"]}

    paused, over, waiting = [await create(world) for _ in range(3)]
    child = await create(world, parentId=waiting)
    await act(world, paused, "pause")
    await act(world, over, "kill")
    found = await listed()
    assert set(found) == {paused, waiting, child}
    assert found[paused] == {
        "taskId": paused,
        "name": f"Generic Task {paused}",
        "username": "admin",
        "taskState": "GENERIC_TASK_STATE_PAUSED",
        "resourcePool": "default",
        "slotsNeeded": 1,
        "registeredTime": "2026-01-01T00:00:00.000000Z",
        "endTime": None,
        "parentId": None,
        "exitStatus": "",
        "waitingReason": None,
    }
    assert found[child]["parentId"] == waiting
    assert found[waiting]["waitingReason"]
    assert (await look(world, waiting))["waitingReason"] == found[waiting]["waitingReason"]
    live = (await world.ok("GET", "/api/v1/tasks"))["allocationIdToSummary"][f"{waiting}.1"]
    assert (live["state"], live["waitingReason"]) == (
        "STATE_QUEUED",
        found[waiting]["waitingReason"],
    )
    await world.services.tasks.roots.tick()
    found = await listed("?ended=true")
    assert set(found) == {paused, over, waiting, child}
    assert found[over]["taskState"] == "GENERIC_TASK_STATE_CANCELED"
    assert "by admin" in found[over]["exitStatus"]
    assert (await look(world, over))["exitStatus"] == found[over]["exitStatus"]
    assert found[over]["endTime"] is not None
