"""A world in which one user has something of everything, for tests that walk all routes as somebody else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute

from master.allocations.machine import AllocationPhase, AllocationState
from master.api.application import ROUTES
from master.tasks.state import TaskState
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world, file

GENERIC = ("/config", "/kill", "/pause", "/unpause")
"""What is done to generic tasks alone."""
TEMPLATE = "team/mine"
MODEL = "mine"
EXTERNAL_ID = "on-a-laptop"
"""Of an unmanaged experiment, and of its trial."""
UNMANAGED: dict[str, Any] = {
    "config": "searcher: {name: single, metric: loss}",
    "unmanaged": True,
}
COMMAND: dict[str, Any] = {"entrypoint": ["sleep", "60"]}


@dataclass(slots=True, kw_only=True)
class Populated:
    """Of the user `determined`; `other` is somebody else, and neither is an administrator."""

    world: ApiWorld
    owner: str
    """A token, as the next two."""
    other: str
    admin: str
    experiment: int
    trial: int
    run: AllocationState
    command: str
    command_run: str
    notebook: str
    shell: str
    tensorboard: str
    generic: str
    job: str
    unmanaged: int
    """An experiment."""
    checkpoint: str = "ckpt-1"
    template: str = TEMPLATE
    group: int = 0
    workspace: int = 0
    project: int = 0
    """Of the experiment; in that workspace."""
    webhook: int = 0
    """Of that workspace."""
    access_token: int = 0
    session: int = 0
    """Another one than that of the token."""
    users: dict[str, int] = field(default_factory=dict)

    def ids(self) -> dict[str, Any]:
        """What stands for the parameters of paths."""
        return {
            "experiment_id": self.experiment,
            "trial_id": self.trial,
            "run_id": self.trial,
            "project_id": self.project,
            "workspace_id": self.workspace,
            "group_id": self.group,
            "checkpoint_uuid": self.checkpoint,
            "allocation_id": self.run.id,
            "resources_id": self.run.containers[0].container.container_id,
            "task_id": self.run.task_id,
            "agent_id": "node-1",
            "token_id": "none",
            "access_token_id": self.access_token,
            "session_id": self.session,
            "bake_id": "none",
            "slot_id": 0,
            "job_id": self.job,
            "template_name": self.template,
            "model_name": MODEL,
            "model_version_num": 1,
            "key": "note",
            "external_experiment_id": EXTERNAL_ID,
            "external_trial_id": EXTERNAL_ID,
            "user_id": 2,
            "username": "determined",
            "label": "mine",
            "name": "windlass.whl",
            "path": "index.html",
            "word": "jupyter-lab",
            "rest": "p/ignored",
            "version": "none",
            "webhook_id": self.webhook,
            "resource_pool_name": "default",
            "workload_type": "EXPERIMENT",
            "folder": "none",
        }

    def url(self, path: str) -> str:
        """The path of a route, with the ids of what there is."""
        of = {
            "trials": self.trial,
            "workspaces": self.workspace,
            "projects": self.project,
            "allocations": self.run.id,
        }
        kind = path.split("/{id}")[0].rpartition("/")[2]
        interactive = {
            "commands": self.command,
            "notebooks": self.notebook,
            "{word}": self.notebook,
            "shells": self.shell,
            "tensorboards": self.tensorboard,
        }
        if path.startswith("/api/v1/tasks/{task_id}") and path.endswith(GENERIC):
            interactive = {"tasks": self.generic}
        tasks = [id_ for many, id_ in interactive.items() if f"/{many}" in path]
        ids = {**self.ids(), **({"task_id": tasks[0]} if tasks else {})}
        plain = path.replace(":path}", "}")
        return plain.format(**ids, id=of.get(kind, self.experiment))


async def running_command(
    world: ApiWorld, token: str, config: dict[str, Any] | None = None
) -> AllocationState:
    """The run of a command of this user, once it runs."""
    launched = await world.ok(
        "POST", "/api/v1/commands", {"config": config or COMMAND}, token=token
    )
    live = world.services.tasks.live(launched["command"]["id"])
    assert live is not None
    state = await live.wait_until(_runs)
    assert state.allocation is not None
    return state.allocation


def _runs(state: TaskState) -> bool:
    allocation = state.allocation
    return allocation is not None and allocation.phase is AllocationPhase.RUNNING


def routes(*methods: str) -> list[tuple[str, APIRoute]]:
    """Method and route of all there are, or of those with these methods."""
    return [
        (method, route)
        for route in ROUTES
        if isinstance(route, APIRoute)
        for method in sorted(route.methods or ())
        if method in methods or not methods
    ]


WEBHOOK = {
    "name": "mine",
    "url": "http://127.0.0.1:9/",
    "webhookType": "WEBHOOK_TYPE_DEFAULT",
    "triggers": [
        {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "ERROR"}}
    ],
}
"""Nobody listens there."""


@asynccontextmanager
async def populated_world(
    tmp_path: Path,
    *,
    config: str = SINGLE,
    command: dict[str, Any] | None = None,
    files: Sequence[dict[str, Any]] = (),
    **options: Any,
) -> AsyncIterator[Populated]:
    settings = {"webhooks.allowed_targets": ["127.0.0.1"], **options.pop("settings", {})}
    async with api_world(tmp_path, settings=settings, **options) as world:
        admin = await world.login("admin")
        other = {"user": {"username": "other", "active": True}, "password": PASSWORD}
        await world.ok("POST", "/api/v1/users", {**other, "isHashed": False})
        made = await world.ok("POST", "/api/v1/groups", {"name": "team", "addUsers": [2]})
        group = made["group"]["groupId"]
        await world.add_agent()
        await world.login("determined")
        sessions = await world.ok("GET", "/api/v1/windlass/users/2/sessions")
        owner = await world.login("determined")
        access_token = await world.ok("POST", "/api/v1/tokens", {"description": "ci"})
        made = await world.ok("POST", "/api/v1/workspaces", {"name": "mine"})
        workspace = made["workspace"]["id"]
        body = {"name": "mine", "key": "note"}
        made = await world.ok("POST", f"/api/v1/workspaces/{workspace}/projects", body)
        project = made["project"]["id"]
        made = await world.ok("POST", "/api/v1/webhooks", {**WEBHOOK, "workspaceId": workspace})
        webhook = made["webhook"]["id"]
        experiment = await world.create(
            config,
            projectId=project,
            modelDefinition=list(files) or [file("train.py", b"print(1)")],
        )
        run = await world.run_of(experiment)
        await world.checkpoint(run, "ckpt-1", 10)
        await world.report(world.trial_id(experiment), "validation", 10, loss=0.5)
        run_of_command = await running_command(world, world.token, command or COMMAND)
        without_slots = {**(command or COMMAND), "resources": {"slots": 0}}
        served = {}
        for one in ("notebook", "shell", "tensorboard"):
            body = {"config": without_slots, "experimentIds": [experiment]}
            served[one] = (await world.ok("POST", f"/api/v1/{one}s", body))[one]["id"]
        body = {"config": json.dumps(command or COMMAND)}
        served["generic"] = (await world.ok("POST", "/api/v1/generic-tasks", body))["taskId"]
        for task in served.values():
            root = world.services.tasks.live(task)
            assert root is not None
            await root.wait_until(_runs)
        await world.ok("POST", f"/api/v1/templates/{TEMPLATE}", {"config": command or {}})
        await world.ok("POST", "/api/v1/models", {"name": MODEL})
        body = {"checkpointUuid": "ckpt-1"}
        await world.ok("POST", f"/api/v1/models/{MODEL}/versions", body)
        by_external_id = f"/api/v1/experiments/by-external-id/{EXTERNAL_ID}"
        put = await world.ok("PUT", by_external_id, UNMANAGED)
        unmanaged = put["experiment"]["id"]
        create = {"experimentId": unmanaged, "unmanaged": True}
        body = {"createTrialRequest": create, "externalTrialId": EXTERNAL_ID}
        await world.ok("PUT", "/api/v1/trials", body)
        live = world.services.experiments.live(experiment)
        assert live is not None
        others = await world.login("other")
        yield Populated(
            world=world,
            owner=owner,
            other=others,
            admin=admin,
            group=group,
            experiment=experiment,
            trial=world.trial_id(experiment),
            run=run,
            command=run_of_command.task_id,
            command_run=run_of_command.id,
            notebook=served["notebook"],
            shell=served["shell"],
            tensorboard=served["tensorboard"],
            generic=served["generic"],
            job=live.state.job_id,
            workspace=workspace,
            project=project,
            webhook=webhook,
            unmanaged=unmanaged,
            access_token=access_token["tokenId"],
            session=sessions["sessions"][0]["id"],
        )
