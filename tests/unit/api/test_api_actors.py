"""Every route that changes something tells the services who does it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from master.api.application import ROUTES
from master.api.routing import ApiRoute
from master.auth.access_tokens import AccessTokens
from master.auth.actions import Action
from master.auth.issued_tokens import IssuedTokens
from master.auth.role_service import RoleService
from master.auth.service import AuthService
from master.auth.user_settings import UserSettings
from master.checkpoints.service import CheckpointService
from master.cluster_message import ClusterMessages
from master.config_policies.service import ConfigPolicyService
from master.core.actor import Actor
from master.experiments.metadata import ExperimentMetadata
from master.experiments.reports.service import ReportService
from master.experiments.saved_views import SavedViews
from master.experiments.service import ExperimentService
from master.experiments.unmanaged import UnmanagedExperiments
from master.jobs.service import JobService
from master.logs.own_log import OwnLog
from master.logs.retention import LogRetention
from master.models.service import ModelService
from master.models.versions import VersionService
from master.pool_bindings.service import PoolBindingService
from master.tasks.generic import GenericTasks
from master.tasks.service import InteractiveService
from master.templates.service import TemplateService
from master.webhooks.service import WebhookService
from master.workspaces.projects import ProjectService
from master.workspaces.service import WorkspaceService
from rm_backends.agents.operator import Operator
from tests.fakes.api_world import SINGLE, SPOT, ApiWorld, api_world
from tests.fakes.one_bake import OneBake
from tests.fakes.one_instance import OneInstance

SERVICES = (
    *(
        AccessTokens,
        AuthService,
        UserSettings,
        SavedViews,
        ExperimentMetadata,
        ExperimentService,
        InteractiveService,
    ),
    *(
        GenericTasks,
        JobService,
        ReportService,
        Operator,
        CheckpointService,
        IssuedTokens,
        TemplateService,
        ConfigPolicyService,
        PoolBindingService,
        WebhookService,
        ModelService,
        VersionService,
        RoleService,
        WorkspaceService,
        ProjectService,
        UnmanagedExperiments,
        OneInstance,
        OneBake,
        ClusterMessages,
        LogRetention,
        OwnLog,
    ),
)
_BULK = "POST /api/v1/projects/{project_id}/experiments/"


INTERACTIVE = {
    "commands": "command",
    "notebooks": "notebook",
    "shells": "shell",
    "tensorboards": "tensorboard",
}


@dataclass(frozen=True, slots=True)
class Here:
    """What there is to be changed."""

    experiment: int
    trial: int
    job: str
    tasks: Mapping[str, str]
    """An interactive task of each kind, by the word in its paths."""

    def ids(self, path: str) -> str:
        """The path of a route with ids instead of its parameters."""
        ids = {
            "id": self.trial if "/trials/" in path else self.experiment,
            "experiment_id": self.experiment,
            "project_id": -1 if "/experiments/" in path else 1,
            "workspace_id": 1,
            "run_id": self.trial,
            "trial_id": self.trial,
            "task_id": next((self.tasks[kind] for kind in self.tasks if f"/{kind}/" in path), ""),
            "user_id": 2,
            "group_id": 1,
            "agent_id": "node-1",
            "slot_id": 0,
            "label": "new",
            "token_id": "none",
            "access_token_id": 1,
            "session_id": 1,
            "bake_id": "bake-1",
            "checkpoint_uuid": "c",
            "template_name": "mine",
            "resource_pool_name": "default",
            "workload_type": "EXPERIMENT",
            "webhook_id": 1,
            "model_name": "mine",
            "model_version_num": 1,
            "external_experiment_id": "theirs",
        }
        return path.replace(":path}", "}").format(**ids)


WEBHOOK = {
    "name": "mine",
    "url": "https://example.org",
    "webhookType": "WEBHOOK_TYPE_DEFAULT",
    "triggers": [
        {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "ERROR"}}
    ],
}
COMMAND = {"entrypoint": ["true"]}
SHOWING = {"experimentIds": [1]}
"""What a TensorBoard has to name; other kinds have no such key."""
Bodies = Mapping[str, Callable[[Here], Any]]
UNMANAGED = {"config": "searcher: {name: single, metric: loss}", "unmanaged": True}


def _role(user: int) -> dict[str, Any]:
    assignment = {"role": {"roleId": 1}}
    return {"userRoleAssignments": [{"userId": user, "roleAssignment": assignment}]}


BODIES: Bodies = {
    **{
        f"{method} /api/v1/windlass/views": lambda here: {"list": "runs", "name": "mine"}
        for method in ("PUT", "DELETE")
    },
    "PUT /api/v1/experiments/by-external-id/{external_experiment_id}": lambda here: UNMANAGED,
    "POST /api/v1/experiments": lambda here: {"config": SINGLE, "activate": False},
    "PATCH /api/v1/experiments/{experiment_id}": lambda here: {
        "name": "another",
        "resources": {"maxSlots": 2},
    },
    **{
        _BULK + act: lambda here: {"experimentIds": [here.experiment]}
        for act in ("activate", "pause", "cancel", "kill", "archive", "unarchive")
    },
    _BULK + "move": lambda here: {"experimentIds": [here.experiment], "destinationProjectId": 1},
    "POST /api/v1/experiments/{experiment_id}/move": lambda here: {"destinationProjectId": 1},
    "POST /api/v1/runs/move": lambda here: {"runIds": [here.trial], "destinationProjectId": 1},
    "POST /api/v1/workspaces": lambda here: {"name": "lab"},
    "POST /api/v1/groups": lambda here: {"name": "lab"},
    "PUT /api/v1/groups/{group_id}": lambda here: {"name": "lab"},
    "PATCH /api/v1/users/assignments": lambda here: {"userIds": [2], "addGroups": [1]},
    "POST /api/v1/roles/add-assignments": lambda here: _role(2),
    "POST /api/v1/roles/remove-assignments": lambda here: _role(1),
    "POST /api/v1/workspaces/{workspace_id}/projects": lambda here: {"name": "vision"},
    "POST /api/v1/projects/{project_id}/move": lambda here: {"destinationWorkspaceId": 1},
    "POST /api/v1/experiments/continue": lambda here: {"id": here.experiment},
    "PUT /api/v1/experiments/{experiment_id}/retain_logs": lambda here: {"numDays": 3},
    "PUT /api/v1/trials/{trial_id}/retain_logs": lambda here: {"numDays": 3},
    _BULK.replace("POST", "PUT") + "retain_logs": lambda here: {
        "experimentIds": [here.experiment],
        "numDays": 3,
    },
    "PUT /api/v1/master/cluster_message": lambda here: {
        "message": "m",
        "startTime": "2026-01-01T00:00:00Z",
    },
    "PATCH /api/v1/master/config": lambda here: {
        "config": {"log": {"color": False}},
        "fieldMask": {"paths": ["log.color"]},
    },
    **{
        f"POST /api/v1/runs/{act}": lambda here: {"runIds": [here.trial]}
        for act in ("kill", "pause", "resume", "archive", "unarchive", "delete")
    },
    "POST /api/v1/commands": lambda here: {"config": COMMAND},
    "POST /api/v1/tensorboards": lambda here: {"config": {}, **SHOWING},
    "POST /api/v1/generic-tasks": lambda here: {"config": "entrypoint: 'true'"},
    **{
        f"POST /api/v1/{kind}/{{task_id}}/set_priority": lambda here: {"priority": 7}
        for kind in INTERACTIVE
    },
    "POST /api/v1/job-queues": lambda here: {"updates": [{"jobId": here.job, "weight": 2.0}]},
    "POST /api/v1/windlass/fleet/offers/retry": lambda here: {"offer": SPOT},
    "POST /api/v1/windlass/fleet/bakes": lambda here: {"pool": "default"},
    "POST /api/v1/windlass/experiments/preview": lambda here: {"config": SINGLE},
    "POST /api/v1/windlass/fleet/plan": lambda here: {"experiment": SINGLE},
    "POST /api/v1/windlass/experiments/{id}/trials": lambda here: {"key": "1"},
    "POST /api/v1/users": lambda here: {"user": {"username": "eve"}},
    "PATCH /api/v1/users/{user_id}": lambda here: {
        "displayName": "D",
        "password": "Good-enough-1",
        "admin": True,
        "active": True,
    },
    "PATCH /api/v1/users": lambda here: {"activate": True, "userIds": [2]},
    "POST /api/v1/users/{user_id}/password": lambda here: "Good-enough-1",
    "POST /api/v1/users/activity": lambda here: {
        "activityType": "ACTIVITY_TYPE_GET",
        "entityType": "ENTITY_TYPE_PROJECT",
        "entityId": 1,
    },
    "DELETE " + _BULK.partition(" ")[2] + "delete": lambda here: {
        "experimentIds": [here.experiment]
    },
    **{
        f"{method} /api/v1/templates/{{template_name:path}}": lambda here: {"config": {}}
        for method in ("POST", "PUT")
    },
    **{
        f"PUT /api/v1/config-policies/{scope}/{{workload_type}}": lambda here: {
            "configPolicies": "constraints: {priority_limit: 1}"
        }
        for scope in ("global", "workspaces/{workspace_id}")
    },
    "POST /api/v1/webhooks": lambda here: WEBHOOK,
    "PATCH /api/v1/webhooks/{webhook_id}": lambda here: {"url": "https://example.org"},
    "PATCH /api/v1/template/rename": lambda here: {"oldName": "mine", "newName": "other"},
    "POST /api/v1/models": lambda here: {"name": "other"},
    "POST /api/v1/models/{model_name}/move": lambda here: {"destinationWorkspaceId": 1},
    "POST /api/v1/models/{model_name}/versions": lambda here: {"checkpointUuid": "c"},
    "DELETE /api/v1/checkpoints": lambda here: {"checkpointUuids": ["c"]},
    "POST /api/v1/checkpoints/rm": lambda here: {"checkpointUuids": ["c"]},
    "PATCH /api/v1/checkpoints": lambda here: {
        "checkpoints": [{"uuid": "c", "resources": {"resources": {}}}]
    },
    "POST /api/v1/runs/{run_id}/metadata": lambda here: {"metadata": {"a": 1}},
}
CHANGED_BY_USERS_TOO = {"PATCH /api/v1/checkpoints", "POST /api/v1/runs/{run_id}/metadata"}
"""Of what tasks report; the rest only they do, and it says of which task it is."""
QUESTIONS = {
    "POST /api/v1/webhooks/{webhook_id}/test",
    "POST /api/v1/experiments-search",
    "POST /api/v1/groups/search",
    "POST /api/v1/roles/search",
    "POST /api/v1/roles/search/by-assignability",
    "POST /api/v1/roles/search/by-ids",
    "POST /api/v1/experiments/{experiment_id}/file",
    "POST /api/v1/preview-hp-search",
    "POST /api/v1/windlass/markdown",
    "POST /api/v1/runs",
    "POST /api/v1/workspaces/{workspace_id}/namespace-bindings",
    "DELETE /api/v1/workspaces/{workspace_id}/namespace-bindings",
    "POST /api/v1/workspaces/{id}/set-resource-quota",
}
"""These change nothing."""


def mutating() -> list[str]:
    found = []
    for route in ROUTES:
        if not isinstance(route, ApiRoute) or route.permit.action in (None, Action.USE_SESSION):
            continue
        for method in (route.methods or set()) - {"GET", "HEAD"}:
            name = f"{method} {route.path}"
            if route.permit.action is not Action.REPORT or name in CHANGED_BY_USERS_TOO:
                found.append(name)
    assert set(found) >= QUESTIONS
    return sorted(set(found) - QUESTIONS)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    async with api_world(tmp_path, elastic=True) as opened:
        await opened.login()
        yield opened


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Actor]:
    """Who was named to a service."""
    seen: list[Actor] = []

    def spied(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            seen.append(named["by"])
            return method(*arguments, **named)

        return call

    for service in SERVICES:
        for name, method in inspect.getmembers(service, inspect.iscoroutinefunction):
            if not name.startswith("_") and "by" in inspect.signature(method).parameters:
                monkeypatch.setattr(service, name, spied(method))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", mutating())
async def test_the_service_is_told_who_does_it(
    world: ApiWorld, told: list[Actor], name: str
) -> None:
    await world.add_agent()
    experiment = await world.create()
    run = await world.run_of(experiment)
    await world.checkpoint(run, "c", 1)
    launched = {
        many: await world.ok("POST", f"/api/v1/{many}", {"config": COMMAND, **SHOWING})
        for many in INTERACTIVE
    }
    generic = await world.ok("POST", "/api/v1/generic-tasks", {"config": "entrypoint: 'true'"})
    await world.ok("POST", "/api/v1/templates/mine", {"config": {}})
    await world.ok("PUT", "/api/v1/windlass/views", {"list": "runs", "name": "mine"})
    await world.ok("POST", "/api/v1/webhooks", WEBHOOK)
    await world.ok("POST", "/api/v1/groups", {"name": "team"})
    await world.ok("POST", "/api/v1/tokens", {})
    await world.ok("POST", "/api/v1/models", {"name": "mine"})
    await world.ok("POST", "/api/v1/models/mine/versions", {"checkpointUuid": "c"})
    live = world.services.experiments.live(experiment)
    assert live is not None
    here = Here(
        experiment=experiment,
        trial=world.trial_id(experiment),
        job=live.state.job_id,
        tasks={
            **{many: launched[many][one]["id"] for many, one in INTERACTIVE.items()},
            "tasks": generic["taskId"],
        },
    )
    ended = ("/tensorboard-files", "/continue", "/runs/archive", "/runs/unarchive", "/runs/delete")
    if name.endswith(ended):
        await world.finish(run)
    if name.endswith("/runs/unarchive"):
        await world.ok("POST", "/api/v1/runs/archive", {"runIds": [here.trial]})
    told.clear()
    method, _, path = name.partition(" ")
    await world.call(method, here.ids(path), BODIES.get(name, lambda here: {})(here))
    assert {(actor.user_id, actor.name, actor.task_id) for actor in told} == {(1, "admin", None)}
