"""What each route is about, which permission shows that, and which it needs besides. Written down apart from the code.

A heading is `kind: seen by > needs`; the routes below it have no prefix where it is `/api/v1`.
"""

from __future__ import annotations

from typing import NamedTuple


class RouteNeed(NamedTuple):
    kind: str
    """`free`, `cluster`, `seen` (a list, or one of it), else the kind of its target."""
    sees: str
    needs: str


TABLE = """
free: >
GET /me
GET /auth/user
GET /users/setting
POST /users/setting
POST /users/setting/reset
PUT /windlass/views
DELETE /windlass/views
GET //users/me
GET //det/
GET //det/{path:path}
GET //det/task-login
POST /auth/logout
POST /windlass/login-codes
GET /users
GET /users/{user_id}
GET /users/{username}/by-username
GET /agents
GET /agents/{agent_id}
GET /agents/{agent_id}/slots
GET /agents/{agent_id}/slots/{slot_id}
GET /master/cluster_message
GET /resource-pools
GET /windlass/fleet
GET /windlass/fleet/bakes
GET /windlass/fleet/offers
GET /windlass/fleet/plan
GET /windlass/fleet/timeline
GET //debug/prom/metrics
GET //prom/det-http-sd-config
POST /preview-hp-search
POST /windlass/markdown
GET /job-queues/stats
POST /groups/search
GET /groups/{group_id}
GET /permissions/summary
GET /roles/search/by-group/{group_id}
GET /roles/search/by-user/{user_id}
POST /roles/search
POST /roles/search/by-assignability
POST /roles/search/by-ids

cluster: > UPDATE_MASTER_CONFIG
DELETE /master/cluster_message
PUT /master/cluster_message
PATCH /master/config
GET /windlass/webhook-signing-key
POST /cleanup_logs
cluster: > VIEW_MASTER_CONFIG
GET /master/config
cluster: > VIEW_MASTER_LOGS
GET /master/logs
cluster: > VIEW_CLUSTER_USAGE
GET /resources/allocation/aggregated
GET /resources/allocation/raw
GET //resources/allocation/aggregated
GET //resources/allocation/allocations-csv
GET //resources/allocation/raw
cluster: > ADMINISTRATE_USER
POST /users
PATCH /users
POST /users/{user_id}/password
GET /windlass/users/{user_id}/sessions
DELETE /windlass/users/{user_id}/sessions
DELETE /windlass/sessions/{session_id}
cluster: > VIEW_OTHER_TOKEN
GET /tokens
cluster: > CREATE_OTHER_TOKEN
POST /tokens
cluster: > ADMINISTRATE_TOKEN
PATCH /tokens/{access_token_id}
cluster: > ADMINISTRATE_USER
PATCH /users/{user_id}
cluster: > UPDATE_GROUP
DELETE /groups/{group_id}
PATCH /users/assignments
POST /groups
PUT /groups/{group_id}
cluster: > CREATE_WORKSPACE
POST /workspaces
cluster: > UPDATE_AGENTS
DELETE /windlass/agents/{agent_id}
DELETE /windlass/fleet/bakes/{bake_id}
DELETE /windlass/join-tokens/{token_id}
GET /windlass/join-tokens
GET /windlass/refused-agents
POST /agents/{agent_id}/disable
POST /agents/{agent_id}/enable
POST /agents/{agent_id}/slots/{slot_id}/disable
POST /agents/{agent_id}/slots/{slot_id}/enable
POST /windlass/fleet/bakes
POST /windlass/fleet/offers/retry
POST /windlass/join-tokens

workspace: VIEW_WORKSPACE > ASSIGN_ROLES
POST /roles/add-assignments
POST /roles/remove-assignments
workspace: VIEW_WORKSPACE > SET_WORKSPACE_NAMESPACE_BINDINGS
DELETE /workspaces/{workspace_id}/namespace-bindings
POST /workspaces/{workspace_id}/namespace-bindings
workspace: VIEW_WORKSPACE > SET_RESOURCE_QUOTAS
POST /workspaces/{id}/set-resource-quota
workspace: VIEW_WORKSPACE > CREATE_PROJECT
POST /workspaces/{workspace_id}/projects
workspace: VIEW_WORKSPACE > DELETE_WORKSPACE
DELETE /workspaces/{id}
workspace: VIEW_WORKSPACE > UPDATE_WORKSPACE
PATCH /workspaces/{id}
POST /workspaces/{id}/archive
POST /workspaces/{id}/unarchive
seen: VIEW_WORKSPACE >
POST /workspaces/{id}/pin
POST /workspaces/{id}/unpin
GET /roles/workspace/{workspace_id}
GET /workspaces
GET /workspaces/{id}
GET /workspaces/{id}/list-namespace-bindings
GET /workspaces/{workspace_id}/available-resource-pools
GET /windlass/search

project: VIEW_PROJECT > CREATE_EXPERIMENT
POST /experiments
POST /windlass/experiments/preview
POST /windlass/fleet/plan
PUT /experiments/by-external-id/{external_experiment_id}
project: VIEW_PROJECT > DELETE_PROJECT
DELETE /projects/{id}
POST /projects/{project_id}/move
project: VIEW_PROJECT > UPDATE_PROJECT
PATCH /projects/{id}
POST /projects/{id}/archive
POST /projects/{id}/unarchive
POST /projects/{project_id}/notes
PUT /projects/{project_id}/notes
seen: VIEW_PROJECT >
POST /users/activity
GET /user/projects/activity
GET /projects/key/{key}
GET /projects/{id}
GET /workspaces/{id}/projects

workspace: VIEW_WORKSPACE > CREATE_NSC
POST /commands
POST /generic-tasks
POST /notebooks
POST /shells
POST /tensorboards
notebook: VIEW_NSC > UPDATE_NSC
POST /commands/{task_id}/kill
POST /commands/{task_id}/set_priority
POST /tasks/{task_id}/kill
POST /tasks/{task_id}/pause
POST /tasks/{task_id}/unpause
POST /notebooks/{task_id}/kill
POST /notebooks/{task_id}/set_priority
POST /shells/{task_id}/kill
POST /shells/{task_id}/set_priority
POST /tensorboards/{task_id}/kill
POST /tensorboards/{task_id}/set_priority
PUT /notebooks/{task_id}/report_idle
seen: VIEW_NSC >
GET /commands
GET /commands/{task_id}
GET /notebooks
GET /notebooks/{task_id}
GET /shells
GET /shells/{task_id}
GET /tasks/count
GET /tasks/{task_id}/config
GET /tensorboards
GET /tensorboards/{task_id}
GET /windlass/generic-tasks
GET //det/interactive/{task_id}/{word}
GET //det/interactive/{task_id}/{word}/{rest:path}
GET //det/wait/{word}/{task_id}
GET //det/wait/{word}/{task_id}/state

experiment: VIEW_EXPERIMENT_METADATA > UPDATE_EXPERIMENT
POST /experiments/{id}/activate
POST /experiments/{id}/pause
POST /experiments/{id}/cancel
POST /experiments/{id}/kill
POST /experiments/continue
POST /projects/{project_id}/experiments/activate
POST /projects/{project_id}/experiments/pause
POST /projects/{project_id}/experiments/cancel
POST /projects/{project_id}/experiments/kill
PUT /projects/{project_id}/experiments/retain_logs
PUT /experiments/{experiment_id}/retain_logs
POST /windlass/experiments/{id}/searcher/close
POST /windlass/experiments/{id}/trials
experiment: VIEW_EXPERIMENT_METADATA > UPDATE_EXPERIMENT_METADATA
DELETE /experiments/{experiment_id}/labels/{label:path}
PATCH /experiments/{experiment_id}
PUT /experiments/{experiment_id}/labels/{label:path}
POST /experiments/{id}/archive
POST /experiments/{id}/unarchive
POST /projects/{project_id}/experiments/archive
POST /projects/{project_id}/experiments/unarchive
experiment: VIEW_EXPERIMENT_METADATA > DELETE_EXPERIMENT
DELETE /experiments/{experiment_id}
DELETE /experiments/{experiment_id}/tensorboard-files
DELETE /projects/{project_id}/experiments/delete
POST /experiments/{experiment_id}/move
POST /projects/{project_id}/experiments/move
trial: VIEW_EXPERIMENT_ARTIFACTS > DELETE_EXPERIMENT
POST /runs/delete
POST /runs/move
trial: VIEW_EXPERIMENT_ARTIFACTS > UPDATE_EXPERIMENT_METADATA
POST /runs/archive
POST /runs/unarchive
trial: VIEW_EXPERIMENT_ARTIFACTS > UPDATE_EXPERIMENT
POST /trials/{id}/kill
POST /windlass/trials/{id}/stop
POST /runs/kill
POST /runs/pause
POST /runs/resume
PUT /trials/{trial_id}/retain_logs
POST /runs/{run_id}/metadata
PATCH /trials/{trial_id}
POST /trials/{trial_id}/early_exit
POST /trials/{trial_id}/metrics
POST /trials/{trial_id}/progress
POST /trials/{trial_id}/runner/metadata
POST /trials/{trial_id}/start
POST /trials/{trial_id}/training_metrics
POST /trials/{trial_id}/validation_metrics
POST /runs/start
POST /trials
PUT /trials
POST /webhooks/custom
POST /trials/profiler/metrics
POST /trial-source-info
task: VIEW_EXPERIMENT_ARTIFACTS > UPDATE_EXPERIMENT
POST /task/logs
POST //task-logs
checkpoint: VIEW_EXPERIMENT_ARTIFACTS > UPDATE_EXPERIMENT
DELETE /checkpoints
POST /checkpoints/rm
PATCH /checkpoints
POST /checkpoints
checkpoint: VIEW_EXPERIMENT_ARTIFACTS > UPDATE_EXPERIMENT_METADATA
POST /checkpoints/{checkpoint_uuid}/metadata
allocation: VIEW_EXPERIMENT_ARTIFACTS > UPDATE_EXPERIMENT
GET /allocations/{allocation_id}/resources/{resources_id}/rendezvous
GET /allocations/{allocation_id}/signals/preemption
POST /allocations/{allocation_id}/acceleratorData
POST /allocations/{allocation_id}/all_gather
POST /allocations/{allocation_id}/another_port
POST /allocations/{allocation_id}/notify_container_running
POST /allocations/{allocation_id}/proxy_address
POST /allocations/{allocation_id}/ready
POST /allocations/{allocation_id}/resources/{resources_id}/daemon
POST /allocations/{allocation_id}/signals/ack_preemption
POST /allocations/{allocation_id}/signals/pending_preemption
POST /allocations/{allocation_id}/waiting
allocation: VIEW_EXPERIMENT_ARTIFACTS >
GET /windlass/allocations/{id}/reason
job: VIEW_EXPERIMENT_METADATA >
POST /job-queues
seen: VIEW_EXPERIMENT_METADATA >
GET /experiment/labels
GET /experiments
GET /experiments/{experiment_id}
GET /projects/{id}/columns
GET /windlass/experiments
GET /windlass/views
GET /windlass/experiments/ids
GET /windlass/experiments/words
GET /windlass/experiments/{id}/cost
GET /windlass/experiments/{id}/reasons
GET /windlass/experiments/{id}/searcher
POST /experiments-search
GET /job-queues
GET /job-queues-v2
GET /windlass/jobs/{job_id}
GET /windlass/jobs/{job_id}/explain
GET /tasks
GET //tasks
GET /windlass/fleet/batch-jobs
GET /windlass/fleet/budgets
GET /windlass/fleet/costs
GET /windlass/fleet/decisions
GET /windlass/pools
GET //prom/det-state-metrics
seen: VIEW_EXPERIMENT_ARTIFACTS >
GET /windlass/runs
GET /windlass/runs/ids
GET /windlass/runs/words
GET /allocations/{allocation_id}
GET /checkpoints/{checkpoint_uuid}
GET /checkpoints/{checkpoint_uuid}/metrics
GET /experiments/metrics-stream/metric-names
GET /experiments/{experiment_id}/file_tree
GET /experiments/{experiment_id}/metrics-stream/batches
GET /experiments/{experiment_id}/metrics-stream/trials-sample
GET /experiments/{experiment_id}/metrics-stream/trials-snapshot
GET /experiments/{experiment_id}/model_def
GET /experiments/{experiment_id}/searcher/best_searcher_validation_metric
GET /experiments/{experiment_id}/trials
GET /experiments/{experiment_id}/validation-history
GET /experiments/{id}/checkpoints
GET /projects/{id}/experiments/metric-ranges
GET /projects/{project_id}/metadata/{key}
GET /runs/{run_id}/metadata
GET /tasks/{task_id}
GET /tasks/{task_id}/acceleratorData
GET /tasks/{task_id}/context_directory
GET /trials/{trial_id}/profiler/available_series
GET /trials/{trial_id}/profiler/metrics
GET /tasks/{task_id}/logs
GET /tasks/{task_id}/logs/fields
GET /windlass/tasks/{task_id}/logs/counts
GET /windlass/tasks/{task_id}/logs/search
GET /windlass/tasks/{task_id}/logs/window
GET /trials/by-external-id/{external_experiment_id}/{external_trial_id}
GET /trials/metrics/training_metrics
GET /trials/metrics/trial_metrics
GET /trials/metrics/validation_metrics
GET /trials/time-series
GET /windlass/experiments/{id}/metric-series
GET /windlass/experiments/{id}/trial-columns
GET /trials/{id}/checkpoints
GET /trials/{id}/remaining_log_retention_days
GET /trials/{trial_id}
GET /trials/{trial_id}/logs
GET /trials/{trial_id}/logs/fields
GET /trials/{trial_id}/workloads
GET /windlass/experiments/{experiment_id}/code/find
GET /windlass/experiments/{experiment_id}/events
GET /windlass/trials/{trial_id}/allocations
GET /windlass/trials/{trial_id}/events
GET /windlass/trials/{trial_id}/profile
GET /windlass/compare
GET /windlass/experiments/{id}/difference
GET //checkpoints/{checkpoint_uuid}
GET //experiments/{experiment_id}/preview_gc
POST /experiments/{experiment_id}/file
POST /runs

cluster: > VIEW_GLOBAL_CONFIG_POLICIES
GET /config-policies/global/{workload_type}
cluster: > MODIFY_GLOBAL_CONFIG_POLICIES
PUT /config-policies/global/{workload_type}
DELETE /config-policies/global/{workload_type}
seen: VIEW_WORKSPACE_CONFIG_POLICIES >
GET /config-policies/workspaces/{workspace_id}/{workload_type}
workspace: VIEW_WORKSPACE > MODIFY_WORKSPACE_CONFIG_POLICIES
PUT /config-policies/workspaces/{workspace_id}/{workload_type}
DELETE /config-policies/workspaces/{workspace_id}/{workload_type}
seen: VIEW_WORKSPACE >
GET /resource-pools/{resource_pool_name}/workspace-bindings
seen: VIEW_WEBHOOKS >
GET /webhooks
webhook: VIEW_WEBHOOKS > EDIT_WEBHOOKS
POST /webhooks
PATCH /webhooks/{webhook_id}
DELETE /webhooks/{webhook_id}
POST /webhooks/{webhook_id}/test
GET /windlass/webhooks/{webhook_id}/deliveries
cluster: > MODIFY_RP_WORKSPACE_BINDINGS
POST /resource-pools/{resource_pool_name}/workspace-bindings
PUT /resource-pools/{resource_pool_name}/workspace-bindings
DELETE /resource-pools/{resource_pool_name}/workspace-bindings
seen: VIEW_MODEL_REGISTRY >
GET /models
GET /model/labels
GET /models/{model_name}
GET /models/{model_name}/versions
GET /models/{model_name}/versions/{model_version_num}
GET /models/{model_name}/versions/{model_version_num}/metrics
workspace: VIEW_WORKSPACE > CREATE_MODEL_REGISTRY
POST /models
model: VIEW_MODEL_REGISTRY > EDIT_MODEL_REGISTRY
PATCH /models/{model_name}
POST /models/{model_name}/archive
POST /models/{model_name}/unarchive
POST /models/{model_name}/move
POST /models/{model_name}/versions
PATCH /models/{model_name}/versions/{model_version_num}
model: VIEW_MODEL_REGISTRY > DELETE_OTHER_USER_MODEL_REGISTRY
DELETE /models/{model_name}
model: VIEW_MODEL_REGISTRY > DELETE_OTHER_USER_MODEL_VERSION
DELETE /models/{model_name}/versions/{model_version_num}

workspace: VIEW_WORKSPACE > CREATE_TEMPLATES
POST /templates/{template_name:path}
template: VIEW_TEMPLATES > UPDATE_TEMPLATES
PATCH /templates/{template_name:path}
PUT /templates/{template_name:path}
PATCH /template/rename
template: VIEW_TEMPLATES > DELETE_TEMPLATES
DELETE /templates/{template_name:path}
seen: VIEW_TEMPLATES >
GET /templates
GET /templates/{template_name:path}
"""


def _read() -> dict[str, RouteNeed]:
    found: dict[str, RouteNeed] = {}
    need = RouteNeed("", "", "")
    for line in TABLE.split("\n"):
        if ":" in line and ">" in line:
            kind, _, rest = line.partition(":")
            sees, _, needs = rest.partition(">")
            need = RouteNeed(kind, sees.strip(), needs.strip())
        elif line:
            method, path = line.split()
            path = path.removeprefix("/") if path.startswith("//") else f"/api/v1{path}"
            assert f"{method} {path}" not in found, path
            found[f"{method} {path}"] = need
    return found


ROUTE_NEEDS = _read()
