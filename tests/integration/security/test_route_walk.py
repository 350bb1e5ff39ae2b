"""Every route, called by everybody who should not get far: what is answered, and that nothing has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from sqlalchemy import select
from sqlmodel import SQLModel

from master.allocations.machine import AllocationState
from master.auth.join_tokens import JoinTokenSigner
from master.logs.rows import LogQuery
from master.store import tables
from tests.fakes.agents_world import TOKEN
from tests.fakes.api_world import SINGLE
from tests.fakes.populated_world import (
    COMMAND,
    UNMANAGED,
    WEBHOOK,
    Populated,
    populated_world,
    routes,
    running_command,
)


class Expected(NamedTuple):
    """Statuses for another user, and for a task that is not the route's own: of that user, or of the same owner."""

    user: int
    task: int
    stranger: int = 401
    """For whom no token is known."""


OPEN = None
"""Answers everybody."""
READ = Expected(200, 200)
HIDDEN = Expected(404, 404)
"""To whom it does not belong, it is not there."""
NOT_THERE = Expected(409, 409)
"""Anybody may ask; its files are not there."""
OWNED = Expected(403, 403)
ENDLESS = Expected(400, 400)
"""Anybody may ask; it is not asked for a metric, as the answer to that ends with the experiment."""
ADMINS = Expected(403, 403)
CREATE = Expected(200, 403)
TAKEN = Expected(409, 403)
"""Anybody may make one; the name is another's."""
IN_RESULTS = Expected(200, 200)
"""Each target has its own answer, and it is an error."""
PAGE = Expected(200, 200, 303)
"""Leads strangers to the form of the login."""
_EXPERIMENT, _BULK = "/api/v1/experiments/{id}", "/api/v1/projects/{project_id}/experiments"
_OF_EXPERIMENT = "/api/v1/experiments/{experiment_id}"
_ALLOCATION = "/api/v1/allocations/{allocation_id}"
RUN_ACTIONS = ("kill", "pause", "resume", "archive", "unarchive", "move", "delete")
INTERACTIVE = ("commands", "notebooks", "shells", "tensorboards")
EXPECTED: Mapping[str, Expected | None] = {
    "GET /health": OPEN,
    "GET /info": OPEN,
    "GET /": OPEN,
    "GET /det": OPEN,
    "GET /det/": PAGE,
    "GET /det/login": OPEN,
    "POST /det/login": OPEN,
    "GET /det/task-login": Expected(404, 404, 303),
    "GET /det/enter": OPEN,
    "GET /det/{path}": Expected(404, 404, 303),
    "GET /det/assets/{version}/{name}": OPEN,
    "GET /det/interactive/{task_id}/{word}": PAGE,
    "GET /det/interactive/{task_id}/{word}/{rest}": PAGE,
    "GET /det/wait/{word}/{task_id}": PAGE,
    "GET /det/wait/{word}/{task_id}/state": PAGE,
    "GET /docs": OPEN,
    "GET /docs/{path}": OPEN,
    "GET /docs/rest-api": OPEN,
    "GET /openapi.json": OPEN,
    "GET /api/v1/openapi.json": OPEN,
    "GET /api/v1/master": OPEN,
    "POST /api/v1/auth/login": OPEN,
    "POST /api/v1/auth/logout": Expected(200, 400),
    "POST /api/v1/windlass/login-codes": Expected(200, 403),
    "GET /api/v1/me": READ,
    "GET /users/me": READ,
    "GET /api/v1/master/config": ADMINS,
    "PATCH /api/v1/master/config": ADMINS,
    "GET /api/v1/master/logs": ADMINS,
    "GET /api/v1/master/cluster_message": READ,
    "PUT /api/v1/master/cluster_message": ADMINS,
    "DELETE /api/v1/master/cluster_message": ADMINS,
    "POST /api/v1/cleanup_logs": ADMINS,
    f"PUT {_OF_EXPERIMENT}/retain_logs": OWNED,
    "PUT /api/v1/trials/{trial_id}/retain_logs": OWNED,
    f"PUT {_BULK}/retain_logs": IN_RESULTS,
    "GET /api/v1/trials/{id}/remaining_log_retention_days": READ,
    "GET /resources/allocation/allocations-csv": READ,
    **{
        f"GET {version}/resources/allocation/{form}": READ
        for version in ("", "/api/v1")
        for form in ("raw", "aggregated")
    },
    "GET /api/v1/master/telemetry": OPEN,
    "POST /api/v1/preview-hp-search": CREATE,
    "POST /api/v1/experiments-search": READ,
    "POST /api/v1/experiments/continue": OWNED,
    "GET /api/v1/experiment/labels": READ,
    "GET /api/v1/experiments/metrics-stream/metric-names": ENDLESS,
    **{
        f"GET {_OF_EXPERIMENT}/metrics-stream/{what}": ENDLESS
        for what in ("batches", "trials-sample", "trials-snapshot")
    },
    f"GET {_OF_EXPERIMENT}/validation-history": READ,
    f"GET {_OF_EXPERIMENT}/file_tree": READ,
    f"POST {_OF_EXPERIMENT}/file": READ,
    "GET /api/v1/projects/{id}/columns": READ,
    "GET /api/v1/projects/{id}/experiments/metric-ranges": READ,
    "GET /api/v1/projects/{project_id}/metadata/{key}": READ,
    "GET /api/v1/tasks/count": READ,
    "GET /api/v1/tasks/{task_id}/logs/fields": READ,
    "GET /api/v1/trials/{trial_id}/logs/fields": READ,
    **{
        f"GET /api/v1/windlass/tasks/{{task_id}}/logs/{what}": READ
        for what in ("counts", "search", "window")
    },
    "GET /api/v1/trials/time-series": READ,
    "GET /api/v1/trials/{trial_id}/profiler/metrics": READ,
    "GET /api/v1/trials/{trial_id}/profiler/available_series": READ,
    "POST /api/v1/trials/profiler/metrics": OWNED,
    "GET /api/v1/tasks/{task_id}/acceleratorData": READ,
    "GET /api/v1/checkpoints/{checkpoint_uuid}/metrics": READ,
    "GET " + _ALLOCATION: READ,
    "POST /api/v1/runs": READ,
    **{f"POST /api/v1/runs/{act}": IN_RESULTS for act in RUN_ACTIONS},
    **{
        f"POST /api/v1/trials/{{trial_id}}/{report}": OWNED
        for report in ("start", "training_metrics", "validation_metrics")
    },
    "POST /api/v1/experiments": CREATE,
    "GET /api/v1/experiments": READ,
    "GET /api/v1/experiments/{experiment_id}": READ,
    "GET /api/v1/experiments/{experiment_id}/trials": READ,
    "GET /api/v1/experiments/{experiment_id}/model_def": READ,
    "GET /api/v1/experiments/{experiment_id}/searcher/best_searcher_validation_metric": READ,
    "GET /api/v1/experiments/{id}/checkpoints": READ,
    "PATCH /api/v1/experiments/{experiment_id}": OWNED,
    "DELETE /api/v1/experiments/{experiment_id}/tensorboard-files": OWNED,
    "DELETE /api/v1/experiments/{experiment_id}": OWNED,
    "DELETE /api/v1/projects/{project_id}/experiments/delete": IN_RESULTS,
    "GET /experiments/{experiment_id}/preview_gc": READ,
    "GET /checkpoints/{checkpoint_uuid}": NOT_THERE,
    "DELETE /api/v1/checkpoints": OWNED,
    "POST /api/v1/checkpoints/rm": OWNED,
    "POST /api/v1/checkpoints/{checkpoint_uuid}/metadata": OWNED,
    "PUT /api/v1/experiments/{experiment_id}/labels/{label}": OWNED,
    "DELETE /api/v1/experiments/{experiment_id}/labels/{label}": OWNED,
    **{
        f"POST {_EXPERIMENT}/{act}": OWNED
        for act in ("activate", "pause", "cancel", "kill", "archive", "unarchive")
    },
    f"POST {_OF_EXPERIMENT}/move": OWNED,
    **{
        f"POST {_BULK}/{act}": IN_RESULTS
        for act in ("activate", "pause", "cancel", "kill", "archive", "unarchive", "move")
    },
    **{f"POST /api/v1/{kind}": CREATE for kind in INTERACTIVE},
    **{f"GET /api/v1/{kind}": READ for kind in INTERACTIVE},
    **{f"GET /api/v1/{kind}/{{task_id}}": READ for kind in INTERACTIVE},
    **{
        f"POST /api/v1/{kind}/{{task_id}}/{act}": OWNED
        for kind in INTERACTIVE
        for act in ("kill", "set_priority")
    },
    "PUT /api/v1/notebooks/{task_id}/report_idle": OWNED,
    "POST /api/v1/generic-tasks": Expected(400, 403),
    "GET /api/v1/tasks/{task_id}/config": READ,
    **{f"POST /api/v1/tasks/{{task_id}}/{act}": OWNED for act in ("kill", "pause", "unpause")},
    f"POST {_ALLOCATION}/another_port": OWNED,
    "GET /api/v1/trials/metrics/trial_metrics": READ,
    "GET /api/v1/trials/metrics/training_metrics": READ,
    "GET /api/v1/trials/metrics/validation_metrics": READ,
    "GET /api/v1/trials/{trial_id}": READ,
    "PATCH /api/v1/trials/{trial_id}": OWNED,
    "POST /api/v1/trials": OWNED,
    "PUT /api/v1/trials": OWNED,
    "GET /api/v1/trials/by-external-id/{external_experiment_id}/{external_trial_id}": READ,
    "PUT /api/v1/experiments/by-external-id/{external_experiment_id}": OWNED,
    "POST /task-logs": OWNED,
    "GET /api/v1/trials/{trial_id}/workloads": READ,
    "GET /api/v1/trials/{id}/checkpoints": READ,
    "GET /api/v1/trials/{trial_id}/logs": READ,
    "POST /api/v1/trials/{id}/kill": OWNED,
    "POST /api/v1/trials/{trial_id}/metrics": OWNED,
    "POST /api/v1/trials/{trial_id}/early_exit": OWNED,
    "POST /api/v1/trials/{trial_id}/runner/metadata": OWNED,
    "POST /api/v1/trials/{trial_id}/progress": OWNED,
    "GET /api/v1/checkpoints/{checkpoint_uuid}": READ,
    "POST /api/v1/checkpoints": OWNED,
    "PATCH /api/v1/checkpoints": OWNED,
    "POST /api/v1/runs/start": OWNED,
    "GET /api/v1/runs/{run_id}/metadata": READ,
    "POST /api/v1/runs/{run_id}/metadata": OWNED,
    "POST /api/v1/webhooks/custom": OWNED,
    "GET /api/v1/webhooks": READ,
    "POST /api/v1/webhooks": OWNED,
    "PATCH /api/v1/webhooks/{webhook_id}": OWNED,
    "DELETE /api/v1/webhooks/{webhook_id}": OWNED,
    "POST /api/v1/webhooks/{webhook_id}/test": OWNED,
    "GET /api/v1/windlass/webhooks/{webhook_id}/deliveries": OWNED,
    "GET /api/v1/windlass/webhook-signing-key": ADMINS,
    "GET " + _ALLOCATION + "/signals/preemption": OWNED,
    "GET " + _ALLOCATION + "/resources/{resources_id}/rendezvous": OWNED,
    **{
        f"POST {_ALLOCATION}/{act}": OWNED
        for act in (
            *("acceleratorData", "all_gather", "notify_container_running", "proxy_address"),
            *("waiting", "ready", "resources/{resources_id}/daemon"),
            *("signals/ack_preemption", "signals/pending_preemption"),
        )
    },
    "POST /api/v1/task/logs": OWNED,
    "GET /api/v1/tasks": READ,
    "GET /tasks": READ,
    "GET /api/v1/tasks/{task_id}": READ,
    "GET /api/v1/tasks/{task_id}/logs": READ,
    "GET /api/v1/tasks/{task_id}/context_directory": READ,
    "GET /api/v1/agents": READ,
    "GET /api/v1/agents/{agent_id}": READ,
    "GET /api/v1/agents/{agent_id}/slots": READ,
    "GET /api/v1/agents/{agent_id}/slots/{slot_id}": READ,
    **{
        f"POST /api/v1/agents/{{agent_id}}{slot}/{act}": ADMINS
        for slot in ("", "/slots/{slot_id}")
        for act in ("enable", "disable")
    },
    "GET /api/v1/resource-pools": READ,
    "GET /api/v1/job-queues": READ,
    "GET /api/v1/job-queues-v2": READ,
    "GET /api/v1/job-queues/stats": READ,
    "POST /api/v1/job-queues": OWNED,
    "GET /api/v1/windlass/generic-tasks": READ,
    "GET /api/v1/windlass/jobs/{job_id}": READ,
    "GET /api/v1/windlass/jobs/{job_id}/explain": READ,
    "GET /api/v1/auth/user": READ,
    "GET /api/v1/users": READ,
    "PATCH /api/v1/users": ADMINS,
    "POST /api/v1/users/{user_id}/password": OWNED,
    "GET /api/v1/users/setting": CREATE,
    "POST /api/v1/users/setting": CREATE,
    "POST /api/v1/users/setting/reset": CREATE,
    "GET /api/v1/windlass/views": READ,
    "PUT /api/v1/windlass/views": CREATE,
    "DELETE /api/v1/windlass/views": Expected(404, 403),
    "POST /api/v1/users/activity": CREATE,
    "GET /api/v1/user/projects/activity": CREATE,
    "GET /api/v1/tokens": CREATE,
    "POST /api/v1/tokens": OWNED,
    "PATCH /api/v1/tokens/{access_token_id}": HIDDEN,
    "GET /api/v1/windlass/users/{user_id}/sessions": OWNED,
    "DELETE /api/v1/windlass/users/{user_id}/sessions": OWNED,
    "DELETE /api/v1/windlass/sessions/{session_id}": HIDDEN,
    "POST /api/v1/users": ADMINS,
    "GET /api/v1/users/{user_id}": READ,
    "GET /api/v1/users/{username}/by-username": READ,
    "PATCH /api/v1/users/{user_id}": OWNED,
    "POST /api/v1/groups/search": READ,
    "POST /api/v1/groups": ADMINS,
    "GET /api/v1/groups/{group_id}": READ,
    "PUT /api/v1/groups/{group_id}": ADMINS,
    "DELETE /api/v1/groups/{group_id}": ADMINS,
    "PATCH /api/v1/users/assignments": ADMINS,
    "GET /api/v1/permissions/summary": READ,
    "POST /api/v1/roles/search": READ,
    "POST /api/v1/roles/search/by-ids": READ,
    "POST /api/v1/roles/search/by-assignability": READ,
    "GET /api/v1/roles/search/by-user/{user_id}": READ,
    "GET /api/v1/roles/search/by-group/{group_id}": READ,
    "GET /api/v1/roles/workspace/{workspace_id}": READ,
    "POST /api/v1/roles/add-assignments": ADMINS,
    "POST /api/v1/roles/remove-assignments": ADMINS,
    "GET /api/v1/workspaces": READ,
    "POST /api/v1/workspaces": TAKEN,
    "GET /api/v1/workspaces/{id}": READ,
    "PATCH /api/v1/workspaces/{id}": OWNED,
    "DELETE /api/v1/workspaces/{id}": OWNED,
    "POST /api/v1/workspaces/{id}/archive": OWNED,
    "POST /api/v1/workspaces/{id}/unarchive": OWNED,
    "POST /api/v1/workspaces/{id}/pin": CREATE,
    "POST /api/v1/workspaces/{id}/unpin": CREATE,
    "GET /api/v1/workspaces/{workspace_id}/available-resource-pools": READ,
    "GET /api/v1/workspaces/{id}/list-namespace-bindings": READ,
    "POST /api/v1/workspaces/{workspace_id}/namespace-bindings": ADMINS,
    "DELETE /api/v1/workspaces/{workspace_id}/namespace-bindings": ADMINS,
    "POST /api/v1/workspaces/{id}/set-resource-quota": ADMINS,
    "GET /api/v1/workspaces/{id}/projects": READ,
    "POST /api/v1/workspaces/{workspace_id}/projects": TAKEN,
    "GET /api/v1/projects/key/{key}": READ,
    "GET /api/v1/projects/{id}": READ,
    "PATCH /api/v1/projects/{id}": OWNED,
    "DELETE /api/v1/projects/{id}": OWNED,
    "POST /api/v1/projects/{id}/archive": OWNED,
    "POST /api/v1/projects/{id}/unarchive": OWNED,
    "POST /api/v1/projects/{project_id}/notes": OWNED,
    "PUT /api/v1/projects/{project_id}/notes": OWNED,
    "POST /api/v1/projects/{project_id}/move": OWNED,
    **{
        f"{method} /api/v1/config-policies/global/{{workload_type}}": who
        for method, who in (("GET", READ), ("PUT", ADMINS), ("DELETE", ADMINS))
    },
    **{
        f"{method} /api/v1/config-policies/workspaces/{{workspace_id}}/{{workload_type}}": who
        for method, who in (("GET", READ), ("PUT", OWNED), ("DELETE", OWNED))
    },
    **{
        f"{method} /api/v1/resource-pools/{{resource_pool_name}}/workspace-bindings": who
        for method, who in (("GET", READ), ("POST", ADMINS), ("PUT", ADMINS), ("DELETE", ADMINS))
    },
    "GET /api/v1/templates": READ,
    "GET /api/v1/templates/{template_name}": READ,
    "POST /api/v1/templates/{template_name}": TAKEN,
    "PUT /api/v1/templates/{template_name}": OWNED,
    "PATCH /api/v1/templates/{template_name}": OWNED,
    "DELETE /api/v1/templates/{template_name}": OWNED,
    "PATCH /api/v1/template/rename": OWNED,
    "GET /api/v1/models": READ,
    "GET /api/v1/model/labels": READ,
    "POST /api/v1/models": TAKEN,
    "GET /api/v1/models/{model_name}": READ,
    "PATCH /api/v1/models/{model_name}": OWNED,
    "DELETE /api/v1/models/{model_name}": OWNED,
    **{
        f"POST /api/v1/models/{{model_name}}/{act}": OWNED
        for act in ("archive", "unarchive", "move", "versions")
    },
    "GET /api/v1/models/{model_name}/versions": READ,
    "GET /api/v1/models/{model_name}/versions/{model_version_num}": READ,
    "PATCH /api/v1/models/{model_name}/versions/{model_version_num}": OWNED,
    "DELETE /api/v1/models/{model_name}/versions/{model_version_num}": OWNED,
    "GET /api/v1/models/{model_name}/versions/{model_version_num}/metrics": READ,
    "POST /api/v1/trial-source-info": OWNED,
    **{
        f"GET /api/v1/windlass/{rows}{what}": READ
        for rows in ("experiments", "runs")
        for what in ("", "/ids", "/words")
    },
    "GET /api/v1/windlass/fleet": READ,
    "GET /api/v1/windlass/fleet/offers": READ,
    "GET /api/v1/windlass/fleet/timeline": READ,
    "GET /api/v1/windlass/fleet/batch-jobs": READ,
    "GET /api/v1/windlass/fleet/budgets": READ,
    "GET /api/v1/windlass/fleet/decisions": READ,
    "POST /api/v1/windlass/fleet/offers/retry": ADMINS,
    "GET /api/v1/windlass/fleet/bakes": READ,
    "POST /api/v1/windlass/fleet/bakes": ADMINS,
    "DELETE /api/v1/windlass/fleet/bakes/{bake_id}": ADMINS,
    "GET /api/v1/windlass/fleet/plan": READ,
    "GET /prom/det-state-metrics": READ,
    "GET /prom/det-http-sd-config": READ,
    "GET /debug/prom/metrics": READ,
    "POST /api/v1/windlass/experiments/preview": CREATE,
    "POST /api/v1/windlass/fleet/plan": CREATE,
    "GET /api/v1/windlass/pools": READ,
    "GET /api/v1/windlass/experiments/{id}/searcher": READ,
    "GET /api/v1/windlass/experiments/{id}/trial-columns": READ,
    "GET /api/v1/windlass/experiments/{id}/metric-series": READ,
    "GET /api/v1/windlass/experiments/{experiment_id}/code/find": READ,
    "GET /api/v1/windlass/experiments/{experiment_id}/events": READ,
    "GET /api/v1/windlass/trials/{trial_id}/allocations": READ,
    "GET /api/v1/windlass/trials/{trial_id}/events": READ,
    "GET /api/v1/windlass/trials/{trial_id}/profile": READ,
    "POST /api/v1/windlass/markdown": READ,
    "POST /api/v1/windlass/experiments/{id}/trials": OWNED,
    "POST /api/v1/windlass/experiments/{id}/searcher/close": OWNED,
    "POST /api/v1/windlass/trials/{id}/stop": OWNED,
    "GET /api/v1/windlass/experiments/{id}/reasons": READ,
    "GET /api/v1/windlass/experiments/{id}/cost": READ,
    "GET /api/v1/windlass/fleet/costs": READ,
    "GET /api/v1/windlass/compare": READ,
    "GET /api/v1/windlass/experiments/{id}/difference": READ,
    "GET /api/v1/windlass/search": READ,
    "GET /api/v1/windlass/allocations/{id}/reason": READ,
    "DELETE /api/v1/windlass/agents/{agent_id}": ADMINS,
    "GET /api/v1/windlass/refused-agents": ADMINS,
    "GET /api/v1/windlass/join-tokens": ADMINS,
    "POST /api/v1/windlass/join-tokens": ADMINS,
    "DELETE /api/v1/windlass/join-tokens/{token_id}": ADMINS,
    "POST /api/v1/windlass/join": OPEN,
    "GET /api/v1/windlass/boot": OPEN,
    "POST /api/v1/windlass/boot/stage": OPEN,
    "GET /api/v1/windlass/boot/wheels": OPEN,
    "GET /api/v1/windlass/boot/wheels/{name}": OPEN,
    "GET /api/v1/windlass/join": OPEN,
    "POST /api/v1/windlass/join/leave": OPEN,
}


def profiled(trial: int) -> dict[str, Any]:
    labels = {"trialId": trial, "name": "gpu_util", "metricType": "PROFILER_METRIC_TYPE_SYSTEM"}
    return {"values": [1], "batches": [1], "timestamps": ["2026-01-01T00:00:00Z"], "labels": labels}


def _role(user: int) -> dict[str, Any]:
    assignment = {"role": {"roleId": 1}}
    return {"userRoleAssignments": [{"userId": user, "roleAssignment": assignment}]}


BODIES: Mapping[str, Callable[[Populated], Any]] = {
    "POST /api/v1/experiments": lambda there: {"config": SINGLE, "validateOnly": True},
    "PATCH /api/v1/experiments/{experiment_id}": lambda there: {"name": "stolen"},
    "POST /api/v1/experiments/continue": lambda there: {"id": there.experiment},
    "POST /api/v1/preview-hp-search": lambda there: {"config": yaml.safe_load(SINGLE)},
    f"POST {_OF_EXPERIMENT}/file": lambda there: {"path": "train.py"},
    **{
        f"POST /api/v1/runs/{act}": lambda there: {
            "runIds": [there.trial],
            "destinationProjectId": 1,
        }
        for act in RUN_ACTIONS
    },
    f"POST {_OF_EXPERIMENT}/move": lambda there: {"destinationProjectId": 1},
    "POST /api/v1/workspaces": lambda there: {"name": "MINE"},
    "PATCH /api/v1/workspaces/{id}": lambda there: {"name": "stolen"},
    "POST /api/v1/workspaces/{workspace_id}/projects": lambda there: {"name": "MINE"},
    "PATCH /api/v1/projects/{id}": lambda there: {"name": "stolen"},
    "POST /api/v1/projects/{project_id}/notes": lambda there: {"name": "stolen"},
    "PUT /api/v1/projects/{project_id}/notes": lambda there: {"notes": [{"name": "stolen"}]},
    "POST /api/v1/projects/{project_id}/move": lambda there: {"destinationWorkspaceId": 1},
    **{
        f"POST /api/v1/trials/{{trial_id}}/{kind}_metrics": lambda there: {
            "trialRunId": 1,
            "stepsCompleted": 11,
            "metrics": {"avgMetrics": {"loss": 0}},
        }
        for kind in ("training", "validation")
    },
    **{
        f"POST {_BULK}/{act}": lambda there: {
            "experimentIds": [there.experiment],
            "destinationProjectId": 1,
        }
        for act in ("activate", "pause", "cancel", "kill", "archive", "unarchive", "move")
    },
    "PATCH /api/v1/master/config": lambda there: {
        "config": {"log": {"level": "LOG_LEVEL_ERROR"}},
        "fieldMask": {"paths": ["log.level"]},
    },
    "PUT /api/v1/master/cluster_message": lambda there: {
        "message": "stolen",
        "startTime": "2026-01-01T00:00:00Z",
    },
    f"PUT {_OF_EXPERIMENT}/retain_logs": lambda there: {"numDays": 0},
    "PUT /api/v1/trials/{trial_id}/retain_logs": lambda there: {"numDays": 0},
    f"PUT {_BULK}/retain_logs": lambda there: {"experimentIds": [there.experiment], "numDays": 0},
    "POST /api/v1/windlass/fleet/offers/retry": lambda there: {"offer": "none"},
    "POST /api/v1/windlass/fleet/bakes": lambda there: {"pool": "none"},
    "POST /api/v1/windlass/experiments/preview": lambda there: {"config": SINGLE},
    "POST /api/v1/windlass/fleet/plan": lambda there: {"experiment": SINGLE},
    "POST /api/v1/windlass/experiments/{id}/trials": lambda there: {"key": "1"},
    **{
        f"POST /api/v1/{kind}": lambda there: {
            "config": COMMAND,
            "preview": True,
            "experimentIds": [there.experiment],
        }
        for kind in INTERACTIVE
    },
    **{
        f"POST /api/v1/{kind}/{{task_id}}/set_priority": lambda there: {"priority": 1}
        for kind in INTERACTIVE
    },
    f"POST {_ALLOCATION}/another_port": lambda there: {"variable": "C10D_PORT", "taken": 1},
    "PUT /api/v1/experiments/by-external-id/{external_experiment_id}": lambda there: UNMANAGED,
    "POST /api/v1/trials": lambda there: {"experimentId": there.unmanaged, "unmanaged": True},
    "PUT /api/v1/trials": lambda there: {
        "createTrialRequest": {"experimentId": there.unmanaged, "unmanaged": True},
        "externalTrialId": "stolen",
    },
    "PATCH /api/v1/trials/{trial_id}": lambda there: {"state": "STATE_ERROR"},
    "POST /task-logs": lambda there: [{"task_id": there.run.task_id, "log": "x"}],
    "POST /api/v1/trials/{trial_id}/metrics": lambda there: {
        "group": "validation",
        "metrics": {"trialRunId": 1, "stepsCompleted": 11, "metrics": {"avgMetrics": {"loss": 0}}},
    },
    "POST /api/v1/trials/{trial_id}/early_exit": lambda there: {
        "reason": "EXITED_REASON_INVALID_HP"
    },
    "POST /api/v1/trials/{trial_id}/progress": lambda there: {"progress": 0.9},
    "POST /api/v1/trials/{trial_id}/runner/metadata": lambda there: {"state": "stolen"},
    "POST /api/v1/checkpoints": lambda there: {"uuid": "forged", "taskId": there.run.task_id},
    "PATCH /api/v1/checkpoints": lambda there: {
        "checkpoints": [{"uuid": there.checkpoint, "resources": {"resources": {}}}]
    },
    "DELETE /api/v1/checkpoints": lambda there: {"checkpointUuids": [there.checkpoint]},
    "POST /api/v1/checkpoints/rm": lambda there: {"checkpointUuids": [there.checkpoint]},
    f"DELETE {_BULK}/delete": lambda there: {"experimentIds": [there.experiment]},
    "POST /api/v1/trials/profiler/metrics": lambda there: {"batches": [profiled(there.trial)]},
    "POST /api/v1/runs/start": lambda there: {"runId": there.trial},
    "POST /api/v1/runs/{run_id}/metadata": lambda there: {"metadata": {"a": 1}},
    "POST /api/v1/webhooks": lambda there: {**WEBHOOK, "workspaceId": there.workspace},
    "PATCH /api/v1/webhooks/{webhook_id}": lambda there: {"url": "http://127.0.0.1:9/stolen"},
    "POST /api/v1/webhooks/custom": lambda there: {
        "experimentId": there.experiment,
        "trialId": there.trial,
        "data": {"title": "x"},
    },
    f"POST {_ALLOCATION}/all_gather": lambda there: {"requestUuid": "r", "numPeers": 1},
    "POST /api/v1/task/logs": lambda there: {"logs": [{"taskId": there.run.task_id, "log": "x"}]},
    "POST /api/v1/job-queues": lambda there: {"updates": [{"jobId": there.job, "weight": 9.0}]},
    **{
        f"PUT /api/v1/config-policies/{scope}/{{workload_type}}": lambda there: {
            "configPolicies": "constraints: {priority_limit: 1}"
        }
        for scope in ("global", "workspaces/{workspace_id}")
    },
    "POST /api/v1/templates/{template_name}": lambda there: {"config": {}},
    "PUT /api/v1/templates/{template_name}": lambda there: {"config": {"labels": ["stolen"]}},
    "PATCH /api/v1/template/rename": lambda there: {
        "oldName": there.template,
        "newName": there.template,
    },
    "POST /api/v1/models": lambda there: {"name": "mine"},
    "PATCH /api/v1/models/{model_name}": lambda there: {"notes": "stolen"},
    "POST /api/v1/models/{model_name}/move": lambda there: {"destinationWorkspaceId": 1},
    "POST /api/v1/models/{model_name}/versions": lambda there: {"checkpointUuid": there.checkpoint},
    "PATCH /api/v1/models/{model_name}/versions/{model_version_num}": lambda there: {
        "notes": "stolen"
    },
    "POST /api/v1/trial-source-info": lambda there: {
        "trialSourceInfo": {
            "trialId": there.trial,
            "checkpointUuid": there.checkpoint,
            "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE",
        }
    },
    "POST /api/v1/groups/search": lambda there: {"limit": 1},
    "POST /api/v1/groups": lambda there: {"name": "stolen"},
    "PUT /api/v1/groups/{group_id}": lambda there: {"name": "stolen"},
    "PATCH /api/v1/users/assignments": lambda there: {
        "userIds": [3],
        "addGroups": [there.group],
    },
    "POST /api/v1/roles/search/by-ids": lambda there: {"roleIds": [1]},
    "POST /api/v1/roles/add-assignments": lambda there: _role(3),
    "POST /api/v1/roles/remove-assignments": lambda there: _role(1),
    "POST /api/v1/users": lambda there: {"user": {"username": "mallory"}},
    "PATCH /api/v1/users/{user_id}": lambda there: {"displayName": "stolen"},
    "PATCH /api/v1/users": lambda there: {"activate": False, "userIds": [1, 2]},
    "POST /api/v1/users/{user_id}/password": lambda there: "Stolen-account-1",
    "POST /api/v1/users/setting": lambda there: {"settings": [{"key": "k", "value": "v"}]},
    "PUT /api/v1/windlass/views": lambda there: {"list": "runs", "name": "mine"},
    "DELETE /api/v1/windlass/views": lambda there: {"list": "runs", "name": "none"},
    "POST /api/v1/users/activity": lambda there: {
        "activityType": "ACTIVITY_TYPE_GET",
        "entityType": "ENTITY_TYPE_PROJECT",
        "entityId": there.project,
    },
    "POST /api/v1/tokens": lambda there: {"userId": 2, "description": "stolen"},
    "PATCH /api/v1/tokens/{access_token_id}": lambda there: {"setRevoked": True},
}
_TIMES = "?timestampAfter=2026-01-01T00:00:00Z&timestampBefore=2026-01-02T00:00:00Z"
_DAYS = (
    "?startDate=2026-01-01&endDate=2026-01-02&period=RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"
)
QUERIES = {
    "/resources/allocation/allocations-csv": _TIMES,
    "/resources/allocation/raw": _TIMES,
    "/api/v1/resources/allocation/raw": _TIMES,
    "/resources/allocation/aggregated": _DAYS,
    "/api/v1/resources/allocation/aggregated": _DAYS,
    "/api/v1/trials/metrics/trial_metrics": "?trialIds={trial}&group=validation",
    "/api/v1/trials/metrics/training_metrics": "?trialIds={trial}",
    "/api/v1/trials/metrics/validation_metrics": "?trialIds={trial}",
    "/api/v1/trials/time-series": "?trialIds={trial}&metricNames=loss",
    "/api/v1/windlass/compare": "?trialIds={trial}",
    "/api/v1/windlass/experiments/{id}/difference": "?otherId={experiment}",
    "/api/v1/windlass/search": "?q=1",
    "/api/v1/windlass/tasks/{task_id}/logs/search": "?text=line",
    _ALLOCATION + "/signals/preemption": "?timeoutSeconds=0",
    "/api/v1/windlass/experiments/{experiment_id}/code/find": "?text=x",
    "/api/v1/windlass/views": "?list=runs",
}
NAMES = [f"{method} {route.path_format}" for method, route in routes()]


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Populated]:
    async with populated_world(tmp_path) as there:
        yield there


def test_every_route_has_a_row() -> None:
    assert sorted(EXPECTED) == sorted(NAMES)


async def call(there: Populated, name: str, token: str) -> tuple[int, Any]:
    method, _, path = name.partition(" ")
    url = there.url(path) + QUERIES.get(path, "").format(
        trial=there.trial, experiment=there.experiment
    )
    body = BODIES[name](there) if name in BODIES else None
    response = await there.world.call(method, url, body, token=token)
    is_json = response.headers.get("content-type") == "application/json"
    is_one = is_json and len(response.text.splitlines()) == 1
    return response.status_code, response.json() if is_one else response.text


EVERYBODYS_OWN = (tables.WorkspacePin, tables.UserSetting, tables.ProjectVisit, tables.SavedView)


async def everything(there: Populated) -> dict[str, list[str]]:
    """All rows of the store and the lines of the task, to compare; without what is everybody's own."""
    store, found = there.world.services.store, {}
    for table in vars(tables).values():
        if table in EVERYBODYS_OWN:
            continue
        if isinstance(table, type) and issubclass(table, SQLModel) and hasattr(table, "__table__"):
            rows = await store.read(select(table))
            found[table.__name__] = sorted(row.model_dump_json() for row in rows)
    query = LogQuery(task_ids=(there.run.task_id,))
    found["logs"] = [str(row) for row in await there.world.services.logs.query(query)]
    return found


async def task_of(there: Populated, user: str) -> str:
    """The token of a task of this user, which is not the one that routes are about."""
    run = await running_command(there.world, user)
    return there.world.task_token(run)


@pytest.mark.parametrize("who", ["other", "others_task", "owners_other_task"])
async def test_who_is_not_the_owner(there: Populated, who: str) -> None:
    tokens = {
        "other": lambda: there.world.login("other"),
        "others_task": lambda: task_of(there, there.other),
        "owners_other_task": lambda: task_of(there, there.owner),
    }
    token = await tokens[who]()
    before = await everything(there)
    for name, expected in EXPECTED.items():
        if expected is OPEN or name.endswith("logout"):
            continue
        status, answer = await call(there, name, token)
        wanted = expected.user if who == "other" else expected.task
        assert status == wanted, (name, answer)
        if expected is IN_RESULTS:
            assert all(result["error"] for result in answer["results"]), (name, answer)
        assert await everything(there) == before, name
    status, _ = await call(there, "POST /api/v1/auth/logout", token)
    assert status == (200 if who == "other" else 400)


async def test_whose_token_is_none(there: Populated) -> None:
    """Strangers, ended tasks and sessions, tokens of agents, and users who are not active any more."""
    world = there.world
    ended = world.task_token(there.run)
    await world.ok("GET", "/api/v1/me", token=ended)
    await world.ok("POST", f"/api/v1/experiments/{there.experiment}/kill", token=there.owner)
    await world.finish(there.run)
    deactivated = there.other
    running = await task_of(there, there.other)
    users = await world.ok("GET", "/api/v1/users", token=there.admin)
    (user,) = [u["id"] for u in users["users"] if u["username"] == "other"]
    await world.ok("PATCH", f"/api/v1/users/{user}", {"active": False}, token=there.admin)
    join_token = JoinTokenSigner(b"s" * 32).token("default")
    credential = "0" * 64
    before = await everything(there)
    for token, wanted in (
        ("", 401),
        ("no-such-token", 401),
        (ended, 401),
        (deactivated, 401),
        (running, 403),
        (join_token, 401),
        (TOKEN, 401),
        (credential, 401),
    ):
        for name, expected in EXPECTED.items():
            if expected is not None:
                status, answer = await call(there, name, token)
                assert status == (expected.stranger if wanted == 401 else wanted), (name, answer)
    assert await everything(there) == before
    world.clock.advance(timedelta(days=8).total_seconds())
    for name, expected in EXPECTED.items():
        if expected is not None:
            status, answer = await call(there, name, there.owner)
            assert status == expected.stranger, (name, answer)
    assert await everything(there) == before


async def test_the_owner_and_the_task_itself_get_through(there: Populated) -> None:
    """Else the walk above would prove nothing."""
    world = there.world
    task = world.task_token(there.run)
    by_users = ("POST /api/v1/trials", "PUT /api/v1/trials")
    reports = [
        name
        for name in EXPECTED
        if EXPECTED[name] is OWNED and _is_report(name) and name not in by_users
    ]
    notebook = world.task_token(_run_of(there, there.notebook))
    for name in reports:
        status, answer = await call(there, name, notebook if "/notebooks/" in name else task)
        assert status not in (401, 403, 404), (name, answer)
    for name, expected in EXPECTED.items():
        if expected is not OPEN and expected is not ADMINS and not name.endswith("logout"):
            status, answer = await call(there, name, there.owner)
            assert status not in (401, 403), (name, answer)
    for name, expected in EXPECTED.items():
        if expected is not OPEN and not name.endswith("logout"):
            status, answer = await call(there, name, there.admin)
            assert status not in (401, 403), (name, answer)


def _run_of(there: Populated, task_id: str) -> AllocationState:
    live = there.world.services.tasks.live(task_id)
    assert live is not None
    assert live.state.allocation is not None
    return live.state.allocation


def _is_report(name: str) -> bool:
    route = next(route for method, route in routes() if f"{method} {route.path_format}" == name)
    return route.permit.action == "report"  # type: ignore[attr-defined]
