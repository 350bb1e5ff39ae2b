"""Every reply goes through the `from_json` of the published client, in that client's own Python."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.api_world import ASHA, PASSWORD, SINGLE, ApiWorld, api_world, file

PYTHON = Path(__file__).parents[3] / ".compat" / "bin" / "python"
READER = """
import json, sys, traceback
from determined.common.api import bindings
failures = []
for path, name, document in json.load(sys.stdin):
    try:
        read = getattr(bindings, name).from_json(document)
        read.to_json(True)
    except Exception:
        failures.append(f"{path} as {name}: " + traceback.format_exc(limit=-2))
print("\\n".join(failures))
"""
Reply = tuple[str, str, Any]


async def gather(world: ApiWorld) -> list[Reply]:
    """A reply of every endpoint that has a type in the client, from a cluster where much has happened."""
    await world.add_agent(slots=2)
    id_ = await world.create(SINGLE, modelDefinition=[file("train.py", b"x = 1\n")])
    run, trial = await world.run_of(id_), world.trial_id(id_)
    token = world.task_token(run)
    await world.report(trial, "training", 1, loss=1.5)
    await world.report(trial, "validation", 1, loss="NaN")
    await world.report(trial, "validation", 2, loss=0.5)
    await world.checkpoint(run, "c-1", 2)
    line = {"taskId": run.task_id, "log": "x", "level": "LOG_LEVEL_INFO", "rankId": 0}
    await world.ok("POST", "/api/v1/task/logs", {"logs": [line]})
    search = await world.create(ASHA)
    other = await world.create(SINGLE, activate=False)
    allocation, experiment = f"/api/v1/allocations/{run.id}", f"/api/v1/experiments/{id_}"
    container = run.containers[0].container.container_id
    replies: list[Reply] = []

    async def note(name: str, method: str, path: str, body: Any = None, **options: Any) -> None:
        replies.append((path, f"v1{name}", await world.ok(method, path, body, **options)))

    await note("SearchRunsResponse", "POST", "/api/v1/runs", {"sort": "id=desc"})
    await note("SearchExperimentsResponse", "POST", "/api/v1/experiments-search", {})
    for table in ("EXPERIMENT", "RUN"):
        path = f"/api/v1/projects/1/columns?tableType=TABLE_TYPE_{table}"
        await note("GetProjectColumnsResponse", "GET", path)
    ranges = "/api/v1/projects/1/experiments/metric-ranges"
    await note("GetProjectNumericMetricsRangeResponse", "GET", ranges)
    await note("GetMetadataValuesResponse", "GET", "/api/v1/projects/1/metadata/a")
    await note("GetExperimentLabelsResponse", "GET", "/api/v1/experiment/labels")
    history = f"/api/v1/experiments/{id_}/validation-history"
    await note("GetExperimentValidationHistoryResponse", "GET", history)
    await note("GetTrialMetricsByCheckpointResponse", "GET", "/api/v1/checkpoints/c-1/metrics")
    started = f"/api/v1/trials/{trial}/start"
    await note("StartTrialResponse", "POST", started, {"trialId": trial, "resume": True})
    compared = f"/api/v1/trials/time-series?trialIds={trial}&metricNames=loss"
    await note("CompareTrialsResponse", "GET", compared)
    login = {"username": "admin", "password": PASSWORD}
    await note("LoginResponse", "POST", "/api/v1/auth/login", login, token="")
    await note("GetMeResponse", "GET", "/api/v1/me")
    await note("GetMasterResponse", "GET", "/api/v1/master")
    await note("GetMasterConfigResponse", "GET", "/api/v1/master/config")
    template = "/api/v1/templates/t"
    await note("PostTemplateResponse", "POST", template, {"config": {"labels": ["a"]}})
    await note("PutTemplateResponse", "PUT", template, {"config": {"labels": ["b"]}})
    await note("PatchTemplateConfigResponse", "PATCH", template, {"labels": ["c"]})
    rename = {"oldName": "t", "newName": "t"}
    await note("PatchTemplateNameResponse", "PATCH", "/api/v1/template/rename", rename)
    await note("GetTemplateResponse", "GET", template)
    await note("GetTemplatesResponse", "GET", "/api/v1/templates")
    create = {"config": SINGLE, "activate": False, "parentId": id_}
    await note("CreateExperimentResponse", "POST", "/api/v1/experiments", create)
    for text in (SINGLE, ASHA):
        preview = {"config": yaml.safe_load(text)}
        await note("PreviewHPSearchResponse", "POST", "/api/v1/preview-hp-search", preview)
    await note("GetExperimentResponse", "GET", f"/api/v1/experiments/{search}")
    await note("GetExperimentsResponse", "GET", "/api/v1/experiments?showTrialData=true")
    await note("GetExperimentTrialsResponse", "GET", f"{experiment}/trials")
    await note("GetExperimentTrialsResponse", "GET", f"/api/v1/experiments/{other}/trials")
    await note("PatchExperimentResponse", "PATCH", experiment, {"name": "new"})
    await note("PutExperimentLabelResponse", "PUT", f"{experiment}/labels/x")
    await note("DeleteExperimentLabelResponse", "DELETE", f"{experiment}/labels/x")
    await note("GetModelDefResponse", "GET", f"{experiment}/model_def")
    await note("GetModelDefTreeResponse", "GET", f"{experiment}/file_tree")
    await note("GetModelDefFileResponse", "POST", f"{experiment}/file", {"path": "train.py"})
    await note("GetExperimentCheckpointsResponse", "GET", f"{experiment}/checkpoints")
    await note("GetTrialCheckpointsResponse", "GET", f"/api/v1/trials/{trial}/checkpoints")
    await note("GetCheckpointResponse", "GET", "/api/v1/checkpoints/c-1")
    await note("GetTrialResponse", "GET", f"/api/v1/trials/{trial}")
    await note(
        "GetTrialWorkloadsResponse",
        "GET",
        f"/api/v1/trials/{trial}/workloads?includeBatchMetrics=true",
    )
    task = f"/api/v1/tasks/{run.task_id}"
    await note("GetTaskResponse", "GET", task)
    await note("GetTaskContextDirectoryResponse", "GET", f"{task}/context_directory")
    await note("GetTasksResponse", "GET", "/api/v1/tasks")
    await note("GetActiveTasksCountResponse", "GET", "/api/v1/tasks/count")
    await note("GetAllocationResponse", "GET", allocation)
    await note("GetTelemetryResponse", "GET", "/api/v1/master/telemetry", token="")
    await note(
        "AllocationRendezvousInfoResponse",
        "GET",
        f"{allocation}/resources/{container}/rendezvous",
        token=token,
    )
    body = {"requestUuid": "u", "numPeers": 1, "data": {"a": 1}}
    await note("AllocationAllGatherResponse", "POST", f"{allocation}/all_gather", body)
    await note("NotifyContainerRunningResponse", "POST", f"{allocation}/notify_container_running")
    storage = {"runId": trial, "checkpointStorage": {"type": "shared_fs"}}
    await note("RunPrepareForReportingResponse", "POST", "/api/v1/runs/start", storage)
    metadata = f"/api/v1/runs/{trial}/metadata"
    await note("PostRunMetadataResponse", "POST", metadata, {"metadata": {"a": 1}})
    await note("GetRunMetadataResponse", "GET", metadata)
    await note("GetAgentsResponse", "GET", "/api/v1/agents")
    await note("GetAgentResponse", "GET", "/api/v1/agents/node-1")
    await note("DisableAgentResponse", "POST", "/api/v1/agents/node-1/disable", {"drain": True})
    await note("EnableAgentResponse", "POST", "/api/v1/agents/node-1/enable")
    slot = "/api/v1/agents/node-1/slots/0"
    await note("GetSlotsResponse", "GET", "/api/v1/agents/node-1/slots")
    await note("GetSlotResponse", "GET", slot)
    await note("DisableSlotResponse", "POST", f"{slot}/disable", {"drain": True})
    await note("EnableSlotResponse", "POST", f"{slot}/enable")
    await note("GetResourcePoolsResponse", "GET", "/api/v1/resource-pools")
    await note("GetJobsV2Response", "GET", "/api/v1/job-queues-v2")
    await note("GetJobsResponse", "GET", "/api/v1/job-queues")
    await note("GetJobQueueStatsResponse", "GET", "/api/v1/job-queues/stats")
    await note("GetUsersResponse", "GET", "/api/v1/users")
    await note("GetUserResponse", "GET", "/api/v1/users/2")
    await note("GetUserByUsernameResponse", "GET", "/api/v1/users/admin/by-username")
    new = {"user": {"username": "eve", "active": True}, "isHashed": True}
    await note("PostUserResponse", "POST", "/api/v1/users", new)
    await note("PatchUserResponse", "PATCH", "/api/v1/users/2", {"displayName": "D"})
    await note("SetUserPasswordResponse", "POST", "/api/v1/users/2/password", "Good-enough-1")
    some_users = {"activate": True, "userIds": [2, 99]}
    await note("PatchUsersResponse", "PATCH", "/api/v1/users", some_users)
    await note("CurrentUserResponse", "GET", "/api/v1/auth/user")
    settings = {"settings": [{"key": "k", "storagePath": "p"}]}
    await world.ok("POST", "/api/v1/users/setting", settings)
    await note("GetUserSettingResponse", "GET", "/api/v1/users/setting")
    visit = {"activityType": "ACTIVITY_TYPE_GET", "entityType": "ENTITY_TYPE_PROJECT"}
    await world.ok("POST", "/api/v1/users/activity", {**visit, "entityId": 1})
    recent = "/api/v1/user/projects/activity"
    await note("GetProjectsByUserActivityResponse", "GET", recent)
    await note("PostAccessTokenResponse", "POST", "/api/v1/tokens", {"userId": 1})
    await note("GetAccessTokensResponse", "GET", "/api/v1/tokens")
    token = f"/api/v1/tokens/{replies[-1][2]['tokenInfo'][0]['id']}"
    await note("PatchAccessTokenResponse", "PATCH", token, {"description": "d"})
    await note("PostWorkspaceResponse", "POST", "/api/v1/workspaces", {"name": "lab"})
    lab = f"/api/v1/workspaces/{replies[-1][2]['workspace']['id']}"
    await note("PatchWorkspaceResponse", "PATCH", lab, {"name": "laboratory"})
    await note("PostProjectResponse", "POST", f"{lab}/projects", {"name": "vision"})
    vision = f"/api/v1/projects/{replies[-1][2]['project']['id']}"
    await note("PatchProjectResponse", "PATCH", vision, {"description": "d"})
    await note("GetProjectByKeyResponse", "GET", "/api/v1/projects/key/VISIO")
    a_note = {"name": "n", "contents": "c"}
    await note("AddProjectNoteResponse", "POST", f"{vision}/notes", a_note)
    await note("PutProjectNotesResponse", "PUT", f"{vision}/notes", {"notes": [a_note]})
    move = {"destinationProjectId": int(vision.rpartition("/")[2])}
    some = {**move, "experimentIds": [int(experiment.rpartition("/")[2])]}
    bulk = "/api/v1/projects/1/experiments/move"
    await note("MoveExperimentsResponse", "POST", bulk, some)
    move_runs = {**move, "runIds": [trial], "sourceProjectId": move["destinationProjectId"]}
    await note("MoveRunsResponse", "POST", "/api/v1/runs/move", move_runs)
    back = {"destinationProjectId": 1}
    # The client reads nothing of what moving, archiving and pinning answer.
    await world.ok("POST", f"{experiment}/move", back)
    await world.ok("POST", f"{vision}/move", {"destinationWorkspaceId": 1})
    await note("ListRPsBoundToWorkspaceResponse", "GET", f"{lab}/available-resource-pools")
    await note("ListWorkspaceNamespaceBindingsResponse", "GET", f"{lab}/list-namespace-bindings")
    for path in (f"{vision}/archive", f"{vision}/unarchive", f"{lab}/archive", f"{lab}/unarchive"):
        await world.ok("POST", path)
    await world.ok("POST", f"{lab}/unpin")
    await world.ok("POST", f"{lab}/pin")
    await note("DeleteProjectResponse", "DELETE", vision)
    await note("DeleteWorkspaceResponse", "DELETE", lab)
    await note("GetWorkspacesResponse", "GET", "/api/v1/workspaces")
    await note("GetWorkspaceResponse", "GET", "/api/v1/workspaces/1")
    await note("GetWorkspaceProjectsResponse", "GET", "/api/v1/workspaces/1/projects")
    await note("GetProjectResponse", "GET", "/api/v1/projects/1")
    launch = {"config": {"entrypoint": ["sleep", "1"]}, "files": [file("a.txt", b"a")]}
    await note("LaunchCommandResponse", "POST", "/api/v1/commands", launch)
    await note("LaunchCommandResponse", "POST", "/api/v1/commands", {**launch, "preview": True})
    await note("GetCommandsResponse", "GET", "/api/v1/commands")
    command = "/api/v1/commands/" + replies[-1][2]["commands"][0]["id"]
    await note("SetCommandPriorityResponse", "POST", f"{command}/set_priority", {"priority": 7})
    await note("KillCommandResponse", "POST", f"{command}/kill")
    await note("GetCommandResponse", "GET", command)
    for name, path in (
        ("TrialLogsResponse", f"/api/v1/trials/{trial}/logs"),
        ("TaskLogsResponse", f"{task}/logs"),
        ("TrialLogsFieldsResponse", f"/api/v1/trials/{trial}/logs/fields"),
        ("TaskLogsFieldsResponse", f"{task}/logs/fields"),
        ("GetTrainingMetricsResponse", f"/api/v1/trials/metrics/training_metrics?trialIds={trial}"),
        (
            "GetValidationMetricsResponse",
            f"/api/v1/trials/metrics/validation_metrics?trialIds={trial}",
        ),
        (
            "GetMetricsResponse",
            f"/api/v1/trials/metrics/trial_metrics?group=training&trialIds={trial}",
        ),
    ):
        lines = await world.lines(path)
        assert lines, path
        replies += [(path, f"v1{name}", item) for item in lines]
    validate = {"config": SINGLE, "validateOnly": True}
    await note("CreateExperimentResponse", "POST", "/api/v1/experiments", validate)
    runs = {"runIds": [world.trial_id(other), 999], "projectId": 1}
    for action in ("Pause", "Resume", "Kill", "Archive", "Unarchive"):
        await note(f"{action}RunsResponse", "POST", f"/api/v1/runs/{action.lower()}", runs)
    await world.finish(run)
    of_loss = f"{experiment}/metrics-stream"
    loss = "metricName=loss&group=validation"
    for name, path in (
        ("ExpMetricNamesResponse", f"/api/v1/experiments/metrics-stream/metric-names?ids={id_}"),
        ("MetricBatchesResponse", f"{of_loss}/batches?{loss}"),
        ("TrialsSampleResponse", f"{of_loss}/trials-sample?{loss}"),
        ("TrialsSnapshotResponse", f"{of_loss}/trials-snapshot?{loss}&batchesProcessed=2"),
    ):
        lines = await world.lines(path)
        assert lines, path
        replies += [(path, f"v1{name}", item) for item in lines]
    await note("GetExperimentResponse", "GET", experiment)
    await note("GetTrialResponse", "GET", f"/api/v1/trials/{trial}")
    await note("GetTaskResponse", "GET", task)
    return replies


@pytest.mark.skipif(not PYTHON.exists(), reason="the published client is not installed (.compat)")
async def test_the_published_client_reads_every_reply(tmp_path: Path) -> None:
    async with api_world(tmp_path) as world:
        await world.login()
        replies = await gather(world)
    read = await asyncio.to_thread(
        subprocess.run,
        [str(PYTHON), "-c", READER],
        input=json.dumps(replies),
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    assert read.stdout.strip() == ""
