"""One of everything that has an id, in a world of the API: what generated requests are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from master.allocations.machine import AllocationPhase
from tests.fakes.api_world import ASHA, ApiWorld, file

Known = dict[str, list[Any]]
"""Kind of id -> those that exist."""


async def populate(world: ApiWorld, storage: Path) -> Known:
    """A running experiment with reports, a paused search, one over and one archived, a command, users, agents.

    One of the agents is away. `storage`: the folder of the world's checkpoints; one of them has files there.
    """
    first = await world.add_agent(slots=4)
    second = await world.add_agent("node-2", slots=4)
    away = await world.add_agent("node-3", slots=0)
    await away.unplug()
    running = await world.create(modelDefinition=[file("train.py", b"print(1)")])
    allocation = await world.run_of(running)
    trial = world.trial_id(running)
    for steps in (1, 2, 3):
        await world.report(trial, "training", steps, loss=1.0 / steps)
        await world.report(trial, "validation", steps, loss=1.0 / steps, other="NaN")
        await world.checkpoint(allocation, f"checkpoint-{steps}", steps)
    (storage / "checkpoint-1").mkdir()
    (storage / "checkpoint-1" / "weights").write_bytes(b"1")
    own = {"type": "shared_fs", "host_path": str(storage)}
    started = await world.ok(
        "POST", "/api/v1/runs/start", {"runId": trial, "checkpointStorage": own}
    )
    line = {"taskId": allocation.task_id, "allocationId": allocation.id, "log": "epoch 1"}
    await world.ok("POST", "/api/v1/task/logs", {"logs": [{**line, "level": "LOG_LEVEL_INFO"}]})
    paused = await world.create(ASHA, activate=False)
    over = await world.create()
    archived = await world.create(activate=False)
    for ended in (over, archived):
        await world.ok("POST", f"/api/v1/experiments/{ended}/kill")
    await world.ok("POST", f"/api/v1/experiments/{archived}/archive")
    users = [await _user(world, name) for name in ("first", "second")]
    command = await world.ok("POST", "/api/v1/commands", {"config": {"entrypoint": ["sleep", "9"]}})
    command_id = str(command["command"]["id"])
    live = world.services.tasks.live(command_id)
    assert live is not None
    await live.wait_until(
        lambda s: s.allocation is not None and s.allocation.phase is AllocationPhase.RUNNING
    )
    generic = [
        str(
            (await world.ok("POST", "/api/v1/generic-tasks", {"config": "entrypoint: x"}))["taskId"]
        )
        for _ in range(2)
    ]
    await world.ok("POST", f"/api/v1/tasks/{generic[0]}/pause")
    interactive = {
        kind: await _interactive(world, kind, experimentIds=[running])
        for kind in ("notebook", "shell", "tensorboard")
    }
    for name in ("first", "second", "third"):
        await world.ok("POST", f"/api/v1/templates/{name}", {"config": {"labels": [name]}})
    models = [
        (await world.ok("POST", "/api/v1/models", {"name": name}))["model"]["id"]
        for name in ("seeing", "hearing")
    ]
    body = {"checkpointUuid": "checkpoint-2"}
    for name in ("seeing", "hearing"):
        await world.ok("POST", f"/api/v1/models/{name}/versions", body)
    webhooks = [await _webhook(world, name) for name in ("first", "second")]
    lab = (await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
    url = f"/api/v1/workspaces/{lab}/projects"
    vision = (await world.ok("POST", url, {"name": "vision"}))["project"]["id"]
    token = await world.ok("POST", "/api/v1/windlass/join-tokens", {"pool": "default"})
    access_token = await world.ok("POST", "/api/v1/tokens", {"userId": users[0]})
    body = {"username": "first", "password": "Secret123"}
    await world.ok("POST", "/api/v1/auth/login", body, token="")
    path = f"/api/v1/windlass/users/{users[0]}/sessions"
    sessions = (await world.ok("GET", path))["sessions"]
    groups = [await _group(world, name, users) for name in ("first", "second", "third")]
    experiments = (running, paused, over, archived)
    jobs = [await world.ok("GET", f"/api/v1/experiments/{id_}") for id_ in experiments]
    return {
        "experiment": [running, *experiments],
        "trial": [trial, trial, trial + 1],
        "task": [allocation.task_id, command_id, *generic],
        "allocation": [allocation.id],
        "container": [c.container.container_id for c in allocation.containers],
        "checkpoint": ["checkpoint-1", "checkpoint-2", "checkpoint-3"],
        "command": [command_id],
        **{kind: [id_] for kind, id_ in interactive.items()},
        "variable": ["C10D_PORT"],
        "job": [job["experiment"]["jobId"] for job in jobs] + [command["command"]["jobId"]],
        "agent": [first.agent_id, second.agent_id, away.agent_id],
        "slot": ["0", "1"],
        "user": users,
        "userGroup": groups,
        "role": [4, 5],
        "username": ["first", "second"],
        "token": [token["joinToken"]["id"]],
        "accessToken": [access_token["tokenId"]],
        "session": [one["id"] for one in sessions],
        "storage": [started["storageId"]],
        "template": ["first", "second", "third"],
        "model": models,
        "modelName": ["seeing", "hearing", str(models[0])],
        "modelVersion": [1],
        "project": [1, vision],
        "workspace": [1, lab],
        "projectKey": ["UNCAT", "VISIO"],
        "label": ["first", "second"],
        "webhook": webhooks,
        "pool": ["default"],
        "run": [1],
        "group": ["training", "validation"],
    }


async def _interactive(world: ApiWorld, kind: str, **asked: Any) -> str:
    body = {"config": {}, **(asked if kind == "tensorboard" else {})}
    return str((await world.ok("POST", f"/api/v1/{kind}s", body))[kind]["id"])


async def _group(world: ApiWorld, name: str, users: list[int]) -> int:
    """It holds a role."""
    made = await world.ok("POST", "/api/v1/groups", {"name": name, "addUsers": users})
    id_ = int(made["group"]["groupId"])
    one = {"role": {"roleId": 4}}
    held = {"groupRoleAssignments": [{"groupId": id_, "roleAssignment": one}]}
    await world.ok("POST", "/api/v1/roles/add-assignments", held)
    return id_


async def _webhook(world: ApiWorld, name: str) -> int:
    """No machine is there."""
    state = {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "ERROR"}}
    body = {"name": name, "url": "https://255.255.255.255/", "triggers": [state]}
    made = await world.ok("POST", "/api/v1/webhooks", {**body, "webhookType": "WEBHOOK_TYPE_SLACK"})
    return int(made["webhook"]["id"])


async def _user(world: ApiWorld, name: str) -> int:
    body = {"user": {"username": name, "active": True}, "password": "Secret123", "isHashed": False}
    return int((await world.ok("POST", "/api/v1/users", body))["user"]["id"])
