"""Changing what is somebody else's: by ids that do not fit together, in words that are the master's to say."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from master.logs.ingest import MAX_LINE_BYTES
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from tests.fakes.api_world import SINGLE
from tests.fakes.populated_world import Populated, populated_world, running_command


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Populated]:
    async with populated_world(tmp_path) as there:
        yield there


async def test_a_task_does_not_report_for_another_by_naming_its_own_allocation(
    there: Populated,
) -> None:
    """Not even for one that is over, whose records anybody's report would have been added to."""
    world = there.world
    await world.ok("POST", f"/api/v1/experiments/{there.experiment}/kill", token=there.owner)
    await world.finish(there.run)
    theirs = await running_command(world, there.other)
    forged = {"uuid": "forged", "taskId": there.run.task_id, "allocationId": theirs.id}
    for token, status in ((world.task_token(theirs), (400, 403)), (there.owner, (400,))):
        response = await world.call("POST", "/api/v1/checkpoints", forged, token=token)
        assert response.status_code in status, response.text
    await world.refused(404, "GET", "/api/v1/checkpoints/forged")


async def test_checkpoints_are_not_put_into_the_storage_of_somebody_else(there: Populated) -> None:
    """Its owner's keys would read and delete there for whoever names its number."""
    world = there.world
    storage = {"type": "s3", "bucket": "b", "access_key": "k", "secret_key": "s"}
    numbers = []
    await world.add_agent("node-2")
    body = {"config": SINGLE, "activate": True, "modelDefinition": []}
    theirs = await world.ok("POST", "/api/v1/experiments", body, token=there.other)
    experiment = int(theirs["experiment"]["id"])
    run = await world.run_of(experiment)
    for trial, token in ((there.trial, there.owner), (world.trial_id(experiment), there.other)):
        started = {"runId": trial, "checkpointStorage": storage}
        reply = await world.ok("POST", "/api/v1/runs/start", started, token=token)
        numbers.append(reply["storageId"])
    mine, own = numbers
    assert mine != own
    report = {"uuid": "private", "taskId": run.task_id, "metadata": {"steps_completed": 1}}
    for number in (mine, 1_000):
        forged = report | {"storageId": number}
        problem = await world.refused(400, "POST", "/api/v1/checkpoints", forged, token=there.other)
        assert f"storageId: {number} is no storage of the task's owner" in problem
    await world.ok("POST", "/api/v1/checkpoints", report | {"storageId": own}, token=there.other)
    shown = await world.ok("GET", "/api/v1/checkpoints/private")
    assert shown["checkpoint"]["storageId"] == own


async def test_a_storage_of_an_older_release_is_nobodys(there: Populated) -> None:
    world = there.world
    config = {"type": "s3", "bucket": "b", "access_key": "k", "secret_key": "s"}
    text = orjson.dumps(config, option=orjson.OPT_SORT_KEYS)
    uow = UnitOfWork()
    row = {"id": 77, "config_hash": hashlib.sha256(text).hexdigest(), "config": config}
    uow.insert(tables.StorageBackend, row)
    await world.services.store.commit(uow)
    report = {"uuid": "late", "taskId": there.run.task_id, "metadata": {"steps_completed": 1}}
    await world.ok("POST", "/api/v1/checkpoints", report | {"storageId": 77}, token=there.owner)
    shown = await world.ok("GET", "/api/v1/checkpoints/late")
    assert shown["checkpoint"]["storageId"] is None


@pytest.mark.parametrize("name", ["ckpt-1/code", "..", ".", "/etc", "a\nb", "CLUSTER", "-rf"])
async def test_a_checkpoint_is_a_folder_of_its_own(there: Populated, name: str) -> None:
    """Its files are deleted with it: not those of a folder that is there for others."""
    world = there.world
    told = await world.ok("GET", "/api/v1/master")
    uuid = told["clusterId"] if name == "CLUSTER" else name
    report = {"uuid": uuid, "taskId": there.run.task_id, "metadata": {"steps_completed": 1}}
    problem = await world.refused(400, "POST", "/api/v1/checkpoints", report, token=there.owner)
    assert "cannot be the name of a checkpoint" in problem


async def test_a_route_for_commands_finds_only_commands(there: Populated) -> None:
    uow = UnitOfWork()
    now = there.world.clock.now()
    common = {"id": "notebook-1", "job_id": "j", "owner_id": 2, "created_at": now}
    uow.insert(
        tables.Task,
        {**common, "type": "NOTEBOOK", "experiment_id": None, "trial_id": None, "ended_at": now},
    )
    uow.insert(
        tables.Command,
        {
            **common,
            "type": "NOTEBOOK",
            "workspace_id": 1,
            "description": "",
            "context": None,
            "resource_pool": "default",
            "state": "TERMINATED",
            "config": {},
            "queue_position": None,
            "active_at": None,
            "exit_status": "",
            "ended_at": now,
        },
    )
    await there.world.services.store.commit(uow)
    for act, body in (("kill", {}), ("set_priority", {"priority": 1})):
        path = f"/api/v1/commands/notebook-1/{act}"
        message = await there.world.refused(404, "POST", path, body, token=there.owner)
        assert message == "command 'notebook-1' not found"


async def lines(there: Populated, token: str) -> list[dict[str, Any]]:
    found = await there.world.lines(f"/api/v1/tasks/{there.run.task_id}/logs", token=token)
    return [line for line in found if line["source"] != "master"]


async def test_who_wrote_a_line_is_the_masters_to_say(there: Populated) -> None:
    world, container = there.world, there.run.containers[0].container
    forged = {
        "taskId": there.run.task_id,
        "allocationId": "other.1",
        "agentId": "another-node",
        "source": "master",
        "log": "forged",
    }
    for token in (world.task_token(there.run), there.owner):
        await world.ok("POST", "/api/v1/task/logs", {"logs": [forged]}, token=token)
    by_task, by_user = await lines(there, there.other)
    assert (by_task["source"], by_user["source"]) == ("task", "user")
    assert by_task["allocationId"] == there.run.id
    assert (by_task["agentId"], by_task["containerId"]) == ("node-1", container.container_id)
    assert (by_user["allocationId"], by_user["agentId"], by_user["containerId"]) == (None,) * 3
    foreign = {"taskId": there.run.task_id, "containerId": "another", "log": "x"}
    message = await world.refused(
        400, "POST", "/api/v1/task/logs", {"logs": [foreign]}, token=world.task_token(there.run)
    )
    assert message == f"logs.containerId: 'another' is not a container of allocation {there.run.id}"


@pytest.mark.parametrize(
    ("line", "kept", "more"),
    [
        ("x" * MAX_LINE_BYTES, "x" * MAX_LINE_BYTES, 0),
        ("x" * (MAX_LINE_BYTES + 5), "x" * MAX_LINE_BYTES, 5),
        ("é" * MAX_LINE_BYTES, "é" * (MAX_LINE_BYTES // 2), MAX_LINE_BYTES),
        ("x" + "é" * MAX_LINE_BYTES, "x" + "é" * (MAX_LINE_BYTES // 2 - 1), MAX_LINE_BYTES + 1),
    ],
    ids=["as long as may be", "longer", "of two bytes each", "a character in the middle"],
)
async def test_a_posted_line_is_cut(there: Populated, line: str, kept: str, more: int) -> None:
    body = {"logs": [{"taskId": there.run.task_id, "log": line}]}
    await there.world.ok("POST", "/api/v1/task/logs", body, token=there.owner)
    (stored,) = await lines(there, there.other)
    assert stored["log"] == kept + (f" [{more} more bytes were cut]" if more else "")


async def test_where_others_may_change_work_they_may_not_delete_or_report(tmp_path: Path) -> None:
    """`security.authz.others_work: any`, as the published basic mode has it."""
    async with populated_world(tmp_path, others_change_work=True) as there:
        world, experiment = there.world, f"/api/v1/experiments/{there.experiment}"
        for method, path, body in (
            ("PATCH", experiment, {"name": "renamed", "resources": {"weight": 2.0}}),
            ("POST", "/api/v1/job-queues", {"updates": [{"jobId": there.job, "weight": 3.0}]}),
            ("POST", f"/api/v1/commands/{there.command}/kill", None),
            ("POST", f"{experiment}/pause", None),
            ("POST", f"{experiment}/kill", None),
        ):
            await world.ok(method, path, body, token=there.other)
        progress = {"progress": 0.5}
        for method, path, body in (
            ("DELETE", f"{experiment}/tensorboard-files", None),
            ("POST", f"/api/v1/trials/{there.trial}/progress", progress),
            ("PATCH", "/api/v1/users/2", {"displayName": "x"}),
            ("POST", "/api/v1/agents/node-1/disable", None),
        ):
            await world.refused(403, method, path, body, token=there.other)
        theirs = await world.create(SINGLE)
        task = world.task_token(await running_command(world, there.owner))
        await world.refused(403, "POST", f"/api/v1/experiments/{theirs}/kill", token=task)
