"""Commands over REST, from the launch to what is left of them; and who may do what to them."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from master.allocations.machine import AllocationPhase, AllocationState
from master.core.jobs import JobType
from master.core.visibility import Visibility
from master.core.words import three_words
from master.tasks.interactive_queries import InteractiveQueries, InteractiveRow
from master.tasks.live import LiveTask
from tests.fakes.actors import ADMIN
from tests.fakes.api_world import PASSWORD, ApiWorld, file
from windlass.launch.context_files import unpack

URL = "/api/v1/commands"
RUNNING = AllocationPhase.RUNNING


async def launch(world: ApiWorld, *, token: str | None = None, **config: Any) -> str:
    body = {"config": {"entrypoint": ["echo", "hi"], **config}}
    return str((await world.ok("POST", URL, body, token=token))["command"]["id"])


async def look(world: ApiWorld, command_id: str) -> Any:
    return (await world.ok("GET", f"{URL}/{command_id}"))["command"]


def live_of(world: ApiWorld, command_id: str) -> LiveTask:
    live = world.services.tasks.live(command_id)
    assert live is not None
    return live


async def running(world: ApiWorld, command_id: str) -> AllocationState:
    state = await live_of(world, command_id).wait_until(
        lambda s: s.allocation is not None and s.allocation.phase is RUNNING
    )
    assert state.allocation is not None
    return state.allocation


async def finish(world: ApiWorld, command_id: str, code: int = 0) -> None:
    run = await running(world, command_id)
    live = live_of(world, command_id)
    container = run.containers[0].container
    world.agents[container.agent_id].exit(container.container_id, code)
    await live.wait_until(lambda state: state.is_over)


async def user(world: ApiWorld, name: str) -> str:
    """The token of a new user; the world stays who it was."""
    body = {"user": {"username": name, "active": True}, "password": PASSWORD}
    await world.ok("POST", "/api/v1/users", body)
    login = {"username": name, "password": PASSWORD}
    return str((await world.ok("POST", "/api/v1/auth/login", login, token=""))["token"])


async def test_a_command_from_its_launch_to_its_end(world: ApiWorld) -> None:
    body = {"config": {"entrypoint": "echo hi", "description": "greet"}, "workspaceId": 1}
    launched = await world.ok("POST", URL, body)
    command, config = launched["command"], launched["config"]
    url = f"{URL}/{command['id']}"
    assert (command["state"], command["description"]) == ("STATE_QUEUED", "greet")
    assert (command["username"], command["exitStatus"]) == ("admin", "")
    assert (command["container"], command["endTime"]) == (None, None)
    assert (config["entrypoint"], config["resources"]["slots"]) == (["echo hi"], 1)
    assert config["resources"]["resource_pool"] == command["resourcePool"] == "default"
    assert (await world.ok("GET", url))["config"] == config
    assert command["waitingReason"]

    await world.add_agent()
    run = await running(world, command["id"])
    seen = await look(world, command["id"])
    assert (seen["state"], seen["waitingReason"]) == ("STATE_RUNNING", None)
    assert seen["container"]["id"] == run.containers[0].container.container_id
    await finish(world, command["id"], 3)
    over = await look(world, command["id"])
    assert over["state"] == "STATE_TERMINATED"
    assert over["exitStatus"].startswith("task failed with exit code 3")
    assert over["endTime"] == "2026-01-01T00:00:00.000000Z"
    await world.services.tasks.roots.tick()
    assert await look(world, command["id"]) == over, "the same from the store alone"


async def test_a_command_is_a_task_and_a_job(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await launch(world, description="mine", resources={"priority": 5})
    run = await running(world, id_)
    summaries = (await world.ok("GET", "/api/v1/tasks"))["allocationIdToSummary"]
    summary = summaries[run.id]
    assert (summary["taskId"], summary["name"], summary["priority"]) == (id_, "mine", 5)
    task = (await world.ok("GET", f"/api/v1/tasks/{id_}"))["task"]
    assert (task["taskType"], task["endTime"]) == ("TASK_TYPE_COMMAND", None)
    assert [a["allocationId"] for a in task["allocations"]] == [run.id]
    shown = await world.ok("GET", f"/api/v1/allocations/{run.id}")
    assert shown == {"allocation": task["allocations"][0]}
    none = {"commands": 0, "notebooks": 0, "shells": 0, "tensorboards": 0}
    assert await world.ok("GET", "/api/v1/tasks/count") == {**none, "commands": 1}
    (job,) = (await world.ok("GET", "/api/v1/job-queues-v2"))["jobs"]
    assert (job["full"]["type"], job["full"]["entityId"]) == ("TYPE_COMMAND", id_)
    assert job["full"]["isPreemptible"] is False
    await finish(world, id_)
    task = (await world.ok("GET", f"/api/v1/tasks/{id_}"))["task"]
    assert task["endTime"] is not None
    assert task["allocations"][0]["statusCode"] == 0
    shown = await world.ok("GET", f"/api/v1/allocations/{run.id}")
    assert shown == {"allocation": task["allocations"][0]}
    assert await world.ok("GET", "/api/v1/tasks/count") == none
    missing = await world.refused(404, "GET", "/api/v1/allocations/none.1")
    assert missing == "allocation 'none.1' not found"
    assert (await world.ok("GET", "/api/v1/tasks"))["allocationIdToSummary"] == {}


async def test_a_command_reads_its_files(world: ApiWorld) -> None:
    files = [file("main.py", b"print(1)\n"), {**file("data"), "type": 53, "mtime": 1742464800}]
    body = {"config": {"entrypoint": ["python3", "main.py"]}, "files": files}
    id_ = (await world.ok("POST", URL, body))["command"]["id"]
    url = f"/api/v1/tasks/{id_}/context_directory"
    content = base64.b64decode((await world.ok("GET", url))["b64Tgz"])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert sorted(archive.getnames()) == ["data", "main.py"]
        assert archive.getmember("data").isdir()
    without = await launch(world)
    assert await world.ok("GET", f"/api/v1/tasks/{without}/context_directory") == {"b64Tgz": ""}


async def test_followed_logs_end_with_the_command(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await launch(world)
    run = await running(world, id_)
    line = {"taskId": id_, "allocationId": run.id, "log": "working\n", "level": "LOG_LEVEL_INFO"}
    await world.ok("POST", "/api/v1/task/logs", {"logs": [line]}, token=world.task_token(run))

    async def follow() -> list[Any]:
        return await world.lines(f"/api/v1/tasks/{id_}/logs?follow=true")

    following = world.tasks.create_task(follow())
    await finish(world, id_)
    logged = [entry["log"].rstrip("\n") for entry in await following]
    assert "working" in logged
    name = f"Command ({three_words(id_)})"
    assert any(text.startswith(f"Scheduling {name}") for text in logged)
    again = await world.lines(f"/api/v1/tasks/{id_}/logs?follow=true")
    assert any(f"{name} was terminated" in entry["log"] for entry in again)


async def test_a_preview_launches_nothing(world: ApiWorld) -> None:
    body = {"config": {"entrypoint": ["true"], "description": "maybe"}, "preview": True}
    shown = await world.ok("POST", URL, body)
    assert (shown["command"]["id"], shown["command"]["description"]) == ("", "maybe")
    assert shown["config"]["entrypoint"] == ["true"]
    assert (await world.ok("GET", URL))["commands"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, {"config": "entrypoint: ls"}, "config: Input should be an object"),
        (400, {"config": {"entrypoint": []}}, "must not be empty"),
        (400, {"config": {"entrypoint": ["x"], "max_restarts": 1}}, '"max_restarts" not allowed'),
        (
            400,
            {
                "config": {
                    "entrypoint": ["x"],
                    "environment": {"proxy_ports": [{"proxy_port": 80}] * 2},
                }
            },
            "environment.proxy_ports[1].proxy_port: 80 is that of proxy_ports[0], too",
        ),
        (400, {"files": [{"path": "a", "content": "%"}]}, "files: a is not valid base64"),
        (404, {"template_name": "mine"}, "template 'mine' not found"),
        (404, {"config": {"entrypoint": ["x"]}, "workspaceId": 7}, "workspace '7' not found"),
    ],
)
async def test_what_is_wrong_is_named(
    world: ApiWorld, status: int, body: dict[str, Any], words: str
) -> None:
    assert words in await world.refused(status, "POST", URL, body)
    assert (await world.ok("GET", URL))["commands"] == []


async def test_a_cluster_that_is_too_small_says_so(world: ApiWorld) -> None:
    await world.add_agent()
    body = {"config": {"entrypoint": ["x"], "resources": {"slots": 1000}}}
    said = await world.refused(400, "POST", URL, body)
    assert "request unfulfillable: Requested 1000 slots on one agent" in str(said)


@pytest.mark.slow
async def test_keys_without_effect_are_told(world: ApiWorld) -> None:
    config = {"entrypoint": ["x"], "debug": True}
    told = (await world.ok("POST", URL, {"config": config, "preview": True}))["configWarnings"]
    assert [line.partition(" has no effect: ")[0] for line in told] == ["debug"]


async def test_a_large_launch_is_accepted(world: ApiWorld) -> None:
    """More than any other body may have."""
    content = bytes(7 * 1024 * 1024)
    body = {"config": {"entrypoint": ["ls"]}, "files": [file("big", content)]}
    assert len(json.dumps(body)) > 8 * 1024 * 1024
    assert (await world.ok("POST", URL, body))["command"]["id"]


async def test_kill_and_priority(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await launch(world)
    await running(world, id_)
    await world.ok("POST", f"{URL}/{id_}/set_priority", {"priority": 7})
    config = (await world.ok("GET", f"{URL}/{id_}"))["config"]
    assert config["resources"]["priority"] == 7
    for wrong in (0, 100):
        said = await world.refused(400, "POST", f"{URL}/{id_}/set_priority", {"priority": wrong})
        assert f"is {wrong}" in said
    killed = await world.ok("POST", f"{URL}/{id_}/kill")
    assert killed["command"]["state"] in ("STATE_TERMINATING", "STATE_TERMINATED")
    await live_of(world, id_).wait_until(lambda state: state.is_over)
    over = await look(world, id_)
    assert over["exitStatus"] == "killed by admin"
    await world.ok("POST", f"{URL}/{id_}/kill")
    assert await look(world, id_) == over
    said = await world.refused(400, "POST", f"{URL}/{id_}/set_priority", {"priority": 7})
    assert "has already ended" in said


async def test_only_owners_and_admins_end_a_command_and_no_task_changes_one(
    world: ApiWorld,
) -> None:
    await world.add_agent(slots=2)
    owner, other = await user(world, "owner"), await user(world, "other")
    id_ = await launch(world, token=owner)
    run = await running(world, id_)

    def change(word: str, token: str, status: int) -> Awaitable[str]:
        body = {"priority": 7} if word == "set_priority" else None
        return world.refused(status, "POST", f"{URL}/{id_}/{word}", body, token=token)

    for word in ("kill", "set_priority"):
        assert "a task may change" in await change(word, world.task_token(run), 403)
        path = f"{URL}/no-such/{word}"
        body = {"priority": 7}
        assert "command 'no-such' not found" in await world.refused(404, "POST", path, body)
    assert "belongs to owner" in await change("kill", other, 403)
    assert "belongs to owner" in await change("set_priority", other, 403)
    assert (await world.ok("GET", f"{URL}/{id_}", token=other))["command"]["username"] == "owner"
    await world.ok("POST", f"{URL}/{id_}/set_priority", {"priority": 7})
    await world.ok("POST", f"{URL}/{id_}/kill")
    await live_of(world, id_).wait_until(lambda state: state.is_over)
    assert (await look(world, id_))["exitStatus"] == "killed by admin"


async def test_lists_are_filtered_sorted_and_paged(world: ApiWorld) -> None:
    eve = await user(world, "eve")
    first = await launch(world, description="b")
    world.clock.advance(1)
    second = await launch(world, description="a", token=eve)
    world.clock.advance(1)
    third = await launch(world, description="c")

    async def listed(query: str = "") -> list[str]:
        answer = await world.ok("GET", f"{URL}?{query}")
        return [command["id"] for command in answer["commands"]]

    assert await listed() == [first, second, third]
    assert await listed("users=eve") == [second]
    assert await listed("users=EVE&users=admin&orderBy=ORDER_BY_DESC") == [third, second, first]
    me = (await world.ok("GET", "/api/v1/me"))["user"]["id"]
    assert await listed(f"userIds={me}") == [first, third]
    assert await listed("sortBy=SORT_BY_DESCRIPTION") == [second, first, third]
    assert await listed("sortBy=SORT_BY_ID") == sorted([first, second, third])
    assert await listed("workspaceId=1&limit=1&offset=1") == [second]
    page = (await world.ok("GET", f"{URL}?limit=2"))["pagination"]
    assert (page["endIndex"], page["total"]) == (2, 3)
    assert "workspace '9' not found" in await world.refused(404, "GET", f"{URL}?workspaceId=9")
    assert "SORT_BY_ID" in await world.refused(400, "GET", f"{URL}?sortBy=x")


async def test_a_command_that_ends_while_it_is_read_is_never_seen_to_wait_again(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = await launch(world)
    read = InteractiveQueries.task

    async def read_late(
        queries: InteractiveQueries,
        command_id: str,
        visible: Visibility,
        *,
        type_: JobType | None = None,
    ) -> InteractiveRow:
        row = await read(queries, command_id, visible, type_=type_)
        await world.services.tasks.kill(id_, by=replace(ADMIN, name="eve"))
        await world.services.tasks.roots.tick()
        return row

    monkeypatch.setattr(InteractiveQueries, "task", read_late)
    seen = await look(world, id_)
    assert seen["state"] == "STATE_TERMINATED"
    assert seen["exitStatus"].endswith(" before it started")
    assert seen["endTime"] is not None


@pytest.mark.parametrize("mtime", [2**63 - 1, -1])
async def test_files_with_impossible_times_can_be_unpacked(
    world: ApiWorld, tmp_path: Path, mtime: int
) -> None:
    body = {"config": {"entrypoint": ["ls"]}, "files": [{**file("a.txt", b"a"), "mtime": mtime}]}
    id_ = (await world.ok("POST", URL, body))["command"]["id"]
    context = await world.ok("GET", f"/api/v1/tasks/{id_}/context_directory")
    unpack(base64.b64decode(context["b64Tgz"]), tmp_path)
    assert (tmp_path / "a.txt").read_bytes() == b"a"
