"""Shells and notebooks over REST: what differs from commands. What all kinds share is tested with commands."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from master.allocations.machine import AllocationPhase, AllocationState
from master.core.words import three_words
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from master.tasks.live import LiveTask
from tests.fakes.api_world import PASSWORD, ApiWorld
from windlass.sdk.interactive import KINDS

SHELLS, NOTEBOOKS = "/api/v1/shells", "/api/v1/notebooks"
GENERIC = "/api/v1/generic-tasks"


def live_of(world: ApiWorld, task_id: str) -> LiveTask:
    live = world.services.tasks.live(task_id)
    assert live is not None
    return live


async def running(world: ApiWorld, task_id: str) -> AllocationState:
    state = await live_of(world, task_id).wait_until(
        lambda s: s.allocation is not None and s.allocation.phase is AllocationPhase.RUNNING
    )
    assert state.allocation is not None
    return state.allocation


async def launched(world: ApiWorld, url: str, **config: Any) -> dict[str, Any]:
    reply = await world.ok("POST", url, {"config": config})
    return dict(reply["shell" if url == SHELLS else "notebook"])


async def user(world: ApiWorld, name: str) -> str:
    body = {"user": {"username": name, "active": True}, "password": PASSWORD}
    await world.ok("POST", "/api/v1/users", body)
    login = {"username": name, "password": PASSWORD}
    return str((await world.ok("POST", "/api/v1/auth/login", login, token=""))["token"])


async def test_a_shell_has_a_key_that_only_its_owner_sees(world: ApiWorld) -> None:
    shell = await launched(world, SHELLS)
    assert shell["privateKey"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    load_ssh_public_key(shell["publicKey"].encode())
    assert shell["addresses"] == []
    assert shell["description"] == f"Shell ({three_words(shell['id'])})"
    again = (await world.ok("GET", f"{SHELLS}/{shell['id']}"))["shell"]
    assert again["privateKey"] == shell["privateKey"]
    other = await world.ok("GET", f"{SHELLS}/{shell['id']}", token=await user(world, "eve"))
    assert other["shell"]["privateKey"] == ""
    assert other["shell"]["publicKey"] == shell["publicKey"]


async def test_two_shells_have_different_keys(world: ApiWorld) -> None:
    first, second = await launched(world, SHELLS), await launched(world, SHELLS)
    assert first["privateKey"] != second["privateKey"]


async def test_a_shell_is_ready_when_it_says_so_and_as_whom_it_runs(world: ApiWorld) -> None:
    await world.add_agent()
    shell = await launched(world, SHELLS)
    run = await running(world, shell["id"])
    assert not live_of(world, shell["id"]).state.is_ready
    token = world.mint.token(run.id)
    url = f"/api/v1/allocations/{run.id}/ready?os_user=alice"
    await world.ok("POST", url, token=token)
    assert live_of(world, shell["id"]).state.is_ready
    seen = (await world.ok("GET", f"{SHELLS}/{shell['id']}"))["shell"]
    assert seen["agentUserGroup"]["user"] == "alice"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agents", "environment", "user"),
    [
        (("task", "task"), {}, "task"),
        (("task", "ann"), {}, ""),
        (("task", ""), {}, ""),
        ((), {}, ""),
        (("task",), {"image": "python:3.11"}, ""),
    ],
    ids=["all agree", "they differ", "one is of an older version", "there is none", "an image"],
)
async def test_the_reply_to_a_launch_says_whom_to_log_in_as(
    world: ApiWorld, agents: tuple[str, ...], environment: dict[str, Any], user: str
) -> None:
    """Clients log in as that, or as root: they do not ask again once it runs."""
    for number, process_user in enumerate(agents):
        await world.add_agent(
            f"node-{number}", process_user=process_user, container_runtime="process, podman 5"
        )
    shell = await launched(world, SHELLS, environment=environment)
    assert shell["agentUserGroup"]["user"] == user


async def test_a_port_that_is_in_use_leads_to_another_one(world: ApiWorld) -> None:
    await world.add_agent()
    shell = await launched(world, SHELLS)
    run = await running(world, shell["id"])
    token, url = world.mint.token(run.id), f"/api/v1/allocations/{run.id}/another_port"
    asked = {"variable": "SHELL_PORT", "taken": run.ports["SHELL_PORT"]}
    other = (await world.ok("POST", url, asked, token=token))["port"]
    assert other != asked["taken"]
    assert (await world.ok("POST", url, asked, token=token))["port"] == other, "asked again"
    served = world.services.allocations.served(shell["id"])
    assert served is not None
    assert served.ports[""].port == other
    refused = {"variable": "NO_PORT", "taken": 1}
    await world.refused(400, "POST", url, refused, token=token)


@pytest.mark.parametrize("url", [SHELLS, NOTEBOOKS])
async def test_kinds_do_not_find_each_other(world: ApiWorld, url: str) -> None:
    task = await launched(world, url)
    other = NOTEBOOKS if url == SHELLS else SHELLS
    await world.refused(404, "GET", f"{other}/{task['id']}")
    await world.refused(404, "POST", f"{other}/{task['id']}/kill")
    assert [one["id"] for one in (await world.ok("GET", url))[url.rpartition("/")[2]]] == [
        task["id"]
    ]
    assert (await world.ok("GET", other))[other.rpartition("/")[2]] == []


async def test_a_preview_has_every_key_and_launches_nothing(world: ApiWorld) -> None:
    for url, name in ((SHELLS, "shell"), (NOTEBOOKS, "notebook")):
        shown = await world.ok("POST", url, {"config": {}, "preview": True})
        real = (await world.ok("POST", url, {"config": {}}))[name]
        assert shown[name].keys() == real.keys()
        assert shown[name]["id"] == ""


async def test_the_token_of_a_notebook_is_its_own(world: ApiWorld) -> None:
    first, second = await launched(world, NOTEBOOKS), await launched(world, NOTEBOOKS)
    path, _, token = first["serviceAddress"].partition("?token=")
    assert path == f"/proxy/{first['id']}/"
    tasks = world.services.tasks
    assert tasks.opens(token, first["id"])
    assert not tasks.opens(token, second["id"])
    assert not tasks.opens("", first["id"])
    other = await world.ok("GET", f"{NOTEBOOKS}/{first['id']}", token=await user(world, "eve"))
    assert other["notebook"]["serviceAddress"] == path


async def test_the_token_of_a_notebook_ends_with_it(world: ApiWorld) -> None:
    notebook = await launched(world, NOTEBOOKS)
    token = notebook["serviceAddress"].partition("?token=")[2]
    await world.ok("POST", f"{NOTEBOOKS}/{notebook['id']}/kill")
    assert not world.services.tasks.opens(token, notebook["id"])


async def test_only_use_keeps_a_notebook_alive(world: ApiWorld) -> None:
    await world.add_agent()
    notebook = await launched(world, NOTEBOOKS, idle_timeout="10m")
    run = await running(world, notebook["id"])
    token, url = world.mint.token(run.id), f"{NOTEBOOKS}/{notebook['id']}/report_idle"
    tick = world.services.tasks.roots.tick
    world.clock.advance(599)
    await world.ok("PUT", url, {"idle": False}, token=token)
    used = world.clock.now()
    shown = (await world.ok("GET", f"{NOTEBOOKS}/{notebook['id']}"))["notebook"]
    assert datetime.fromisoformat(shown["lastActivity"]) == used
    assert datetime.fromisoformat(shown["idleEndsAt"]) == used + timedelta(minutes=10)
    world.clock.advance(599)
    await world.ok("PUT", url, {"idle": True}, token=token)
    await tick()
    assert live_of(world, notebook["id"]).state.phase.value == "ACTIVE"
    world.clock.advance(1)
    await tick()
    assert live_of(world, notebook["id"]).state.phase.value == "STOPPING"
    await world.refused(403, "PUT", url, {"idle": False}, token=await user(world, "eve"))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"idle_timeout": "soon"}, "idle_timeout"),
        ({"notebook_idle_type": "never"}, "notebook_idle_type"),
        ({"resources": {"slots_per_trial": 2}}, 'a notebook has "slots"'),
        ({"kernel": "R"}, "kernel"),
    ],
)
async def test_a_bad_notebook_is_refused_with_its_key(
    world: ApiWorld, config: dict[str, Any], says: str
) -> None:
    refused = await world.refused(400, "POST", NOTEBOOKS, {"config": config})
    assert says in refused
    assert "notebook configuration" in refused


@pytest.mark.parametrize(
    ("url", "table"),
    [
        *((f"/api/v1/{kind.many}", tables.Workspace) for kind in KINDS),
        (GENERIC, tables.Workspace),
        (GENERIC, tables.Project),
    ],
)
async def test_nothing_is_launched_in_what_is_archived(
    world: ApiWorld, url: str, table: type[tables.Workspace | tables.Project]
) -> None:
    uow = UnitOfWork()
    uow.update(table, {"id": 1}, {"archived": True}, expect=1)
    await world.services.store.commit(uow)
    config: Any = "entrypoint: [x]" if url == GENERIC else {"entrypoint": ["x"]}
    refused = await world.refused(404, "POST", url, {"config": config})
    assert "1' not found: it is archived" in refused
    assert await world.ok("GET", "/api/v1/tasks") == {"allocationIdToSummary": {}}


async def test_keys_of_other_kinds_are_told_to_have_no_effect(world: ApiWorld) -> None:
    config = {"entrypoint": ["ls"], "idle_timeout": "5m", "notebook_idle_type": "activity"}
    warnings = (await world.ok("POST", SHELLS, {"config": config}))["configWarnings"]
    assert [line.partition(" has no effect")[0] for line in warnings] == list(config)
    warnings = (await world.ok("POST", NOTEBOOKS, {"config": config}))["configWarnings"]
    assert [line.partition(" has no effect")[0] for line in warnings] == ["entrypoint"]
