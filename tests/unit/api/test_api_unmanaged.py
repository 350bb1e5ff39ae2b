"""Experiments whose processes run outside of the cluster, as their client talks of them."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from master.store import tables
from tests.fakes.api_world import SINGLE, ApiWorld

CONFIG = """
checkpoint_storage: {container_path: /srv/unmanaged, type: directory}
data: null
description: null
labels: null
name: um
project: null
searcher: {metric: loss, name: single}
workspace: null
"""
NEW = {"config": CONFIG, "unmanaged": True}
EX1 = "/api/v1/experiments/by-external-id/ex1"
DAY = timedelta(days=1)


def trial_body(experiment: int, external_id: str = "tr1") -> dict[str, Any]:
    create = {"experimentId": experiment, "hparams": None, "unmanaged": True}
    return {"createTrialRequest": create, "externalTrialId": external_id}


async def put(world: ApiWorld) -> tuple[int, dict[str, Any]]:
    """The experiment ex1 and its trial tr1."""
    experiment = (await world.ok("PUT", EX1, NEW))["experiment"]["id"]
    return experiment, (await world.ok("PUT", "/api/v1/trials", trial_body(experiment)))["trial"]


async def start(world: ApiWorld, trial: int, *, resume: bool = True) -> dict[str, Any]:
    body = {"trialId": trial, "resume": resume}
    started: dict[str, Any] = await world.ok("POST", f"/api/v1/trials/{trial}/start", body)
    return started


async def patch(world: ApiWorld, trial: int, state: str | None = None) -> dict[str, Any]:
    body = {"trialId": trial, "state": state} if state else {"trialId": trial}
    found: dict[str, Any] = (await world.ok("PATCH", f"/api/v1/trials/{trial}", body))["trial"]
    return found


async def experiment_of(world: ApiWorld, id_: int) -> dict[str, Any]:
    found: dict[str, Any] = (await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]
    return found


async def tick(world: ApiWorld, later: timedelta) -> None:
    world.clock.advance(later.total_seconds())
    await world.services.experiments.roots.tick()


async def save(world: ApiWorld, trial: dict[str, Any], uuid: str, steps: int) -> None:
    storage = {"type": "directory", "container_path": "/srv/unmanaged"}
    begun = await world.ok(
        "POST", "/api/v1/runs/start", {"runId": trial["id"], "checkpointStorage": storage}
    )
    body = {
        "metadata": {"steps_completed": steps},
        "resources": {"metadata.json": "26", "a": "1"},
        "state": "STATE_COMPLETED",
        "training": {},
        "uuid": uuid,
        "allocationId": None,
        "reportTime": "2026-11-20T22:47:59.509070+00:00",
        "storageId": begun["storageId"],
        "taskId": trial["taskId"],
    }
    await world.ok("POST", "/api/v1/checkpoints", body)


async def test_a_recorded_conversation(world: ApiWorld) -> None:
    """S8 as it was recorded, then the same ids again: the trial goes on from its checkpoint."""
    await world.ok("GET", "/api/v1/me")
    experiment, trial = await put(world)
    id_ = trial["id"]
    assert trial["state"] == "STATE_PAUSED"
    assert trial["taskId"].startswith(f"{experiment}.")
    assert (await experiment_of(world, experiment))["state"] == "STATE_PAUSED"
    await world.ok("GET", "/api/v1/master")
    assert await start(world, id_) == {
        "trialRunId": 1,
        "stepsCompleted": 0,
        "latestCheckpoint": None,
    }
    assert (await patch(world, id_, "STATE_RUNNING"))["state"] == "STATE_RUNNING"
    await patch(world, id_)
    assert (await world.report(id_, "training", 1, loss=1.0)).status_code == 200
    await world.ok("POST", f"/api/v1/trials/{id_}/progress", {"progress": 0.5, "is_raw": True})
    assert (await world.report(id_, "validation", 2, loss=0.5)).status_code == 200
    await save(world, trial, "two", 2)
    shown = await experiment_of(world, experiment)
    assert (shown["state"], shown["progress"], shown["unmanaged"]) == ("STATE_RUNNING", 0.5, True)
    assert (shown["externalExperimentId"], shown["resourcePool"]) == ("ex1", "")
    done = await patch(world, id_, "STATE_COMPLETED")
    assert (done["state"], done["searcherMetricValue"]) == ("STATE_COMPLETED", 0.5)
    lines = [
        {
            "task_id": trial["taskId"],
            "timestamp": "2026-11-20T22:05:42.724020+00:00",
            "rank": "0",
            "log": f"line {n}\n",
        }
        for n in (1, 2)
    ]
    await world.ok("POST", "/task-logs", lines)
    shown = await experiment_of(world, experiment)
    assert (shown["state"], shown["progress"]) == ("STATE_COMPLETED", 1.0)
    assert shown["endTime"] is not None
    logged = await world.lines(f"/api/v1/trials/{id_}/logs")
    assert [line["log"] for line in logged] == ["line 1", "line 2"]
    assert {line["rankId"] for line in logged} == {0}

    await tick(world, DAY)  # nothing of it lives in memory any more
    assert world.services.experiments.live(experiment) is None
    assert await put(world) == (experiment, done)
    assert await start(world, id_) == {
        "trialRunId": 2,
        "stepsCompleted": 2,
        "latestCheckpoint": "two",
    }
    shown = await experiment_of(world, experiment)
    assert (shown["state"], shown["endTime"]) == ("STATE_RUNNING", None)
    assert (await world.report(id_, "training", 3, run_id=2, loss=0.4)).status_code == 200
    old = await world.report(id_, "training", 4, run_id=1, loss=0.4)
    assert old.status_code == 400, "the process before it"


async def test_moved_from_a_laptop_into_a_command_of_the_cluster(world: ApiWorld) -> None:
    """The same ids continue the same trial on the cluster; reports of the laptop are refused from then on."""
    experiment, trial = await put(world)
    id_ = trial["id"]
    await start(world, id_)
    await world.report(id_, "training", 2, loss=0.5)
    await save(world, trial, "two", 2)
    await world.report(id_, "training", 3, loss=0.4)  # beyond the checkpoint
    agent = await world.add_agent()
    command = {"config": {"entrypoint": ["python3", "train.py"], "resources": {"slots": 1}}}
    await world.ok("POST", "/api/v1/commands", command)
    await agent.until(lambda: len(agent.containers) == 1)
    (container,) = agent.containers.values()
    of_task = world.mint.token(container.spec.allocation_id)
    for method, path, body in (
        ("PUT", EX1, NEW),
        ("PUT", "/api/v1/trials", trial_body(experiment)),
        ("POST", f"/api/v1/trials/{id_}/start", {"trialId": id_, "resume": True}),
    ):
        answer = await world.call(method, path, body, token=of_task)
        assert answer.status_code == 403, "what a task may do by itself"
    await world.login()  # in the command
    moved_experiment, moved = await put(world)
    assert (moved_experiment, moved["id"], moved["taskId"]) == (experiment, id_, trial["taskId"])
    assert await start(world, id_) == {
        "trialRunId": 2,
        "stepsCompleted": 2,
        "latestCheckpoint": "two",
    }
    assert (await world.report(id_, "training", 4, loss=0.3)).status_code == 400, "the laptop"
    assert (await world.report(id_, "training", 3, run_id=2, loss=0.3)).status_code == 200
    await world.report(id_, "validation", 3, run_id=2, loss=0.2)
    done = await patch(world, id_, "STATE_COMPLETED")
    assert (done["totalBatchesProcessed"], done["searcherMetricValue"]) == (3, 0.2)
    shown = await experiment_of(world, experiment)
    assert (shown["state"], shown["unmanaged"]) == ("STATE_COMPLETED", True)


async def test_a_laptop_that_sleeps_for_a_day(world: ApiWorld) -> None:
    experiment, trial = await put(world)
    id_ = trial["id"]
    await start(world, id_)
    await tick(world, timedelta(minutes=4, seconds=59))
    assert (await experiment_of(world, experiment))["state"] == "STATE_RUNNING"
    last = await patch(world, id_)
    fell_asleep = world.clock.now()
    await tick(world, DAY)
    lost = (await world.ok("GET", f"/api/v1/trials/{id_}"))["trial"]
    assert (last["state"], lost["state"]) == ("STATE_RUNNING", "STATE_ERROR")
    assert lost["endTime"] == f"{fell_asleep:%Y-%m-%dT%H:%M:%S.%f}Z"
    assert (await experiment_of(world, experiment))["state"] == "STATE_ERROR"
    assert "lost heartbeat" in (await experiment_of(world, experiment))["error"]
    await tick(world, DAY)
    # It wakes up: a report may be faster than the heartbeat.
    assert (await world.report(id_, "training", 1, loss=1.0)).status_code == 200
    assert (await patch(world, id_))["state"] == "STATE_RUNNING"
    shown = await experiment_of(world, experiment)
    assert (shown["state"], shown["error"]) == ("STATE_RUNNING", "")
    task = (await world.ok("GET", f"/api/v1/tasks/{trial['taskId']}"))["task"]
    assert task["endTime"] is None


async def test_one_that_has_completed_is_not_revived_by_a_late_heartbeat(world: ApiWorld) -> None:
    _, trial = await put(world)
    await start(world, trial["id"])
    await patch(world, trial["id"], "STATE_COMPLETED")
    assert (await patch(world, trial["id"]))["state"] == "STATE_COMPLETED"


async def test_the_same_ids_from_two_processes_at_once(world: ApiWorld) -> None:
    created = await asyncio.gather(*(world.ok("PUT", EX1, NEW) for _ in range(4)))
    (experiment,) = {one["experiment"]["id"] for one in created}
    body = trial_body(experiment)
    trials = await asyncio.gather(*(world.ok("PUT", "/api/v1/trials", body) for _ in range(4)))
    (trial,) = {one["trial"]["id"] for one in trials}
    for table in (tables.Experiment, tables.Trial):
        assert await world.services.store.read_one(select(func.count(table.id))) == 1
    runs = await asyncio.gather(*(start(world, trial) for _ in range(2)))
    assert sorted(run["trialRunId"] for run in runs) == [1, 2]
    url = "/api/v1/trials/by-external-id/ex1/tr1"
    assert (await world.ok("GET", url))["trial"]["id"] == trial
    await world.refused(404, "GET", "/api/v1/trials/by-external-id/ex1/tr2")


async def test_several_trials_of_one_experiment(world: ApiWorld) -> None:
    """The experiment is what its most progressed trial is."""
    created = await world.ok("POST", "/api/v1/experiments", NEW)
    experiment = created["experiment"]["id"]
    new = {"experimentId": experiment, "hparams": {"lr": 0.1}, "unmanaged": True}
    one, two = [(await world.ok("POST", "/api/v1/trials", new))["trial"] for _ in range(2)]
    assert one["id"] != two["id"]
    assert one["hparams"] == {"lr": 0.1}
    expected = [
        (one["id"], "STATE_RUNNING", "STATE_RUNNING"),
        (one["id"], "STATE_ERROR", "STATE_ERROR"),
        (two["id"], "STATE_RUNNING", "STATE_RUNNING"),
        (two["id"], "STATE_COMPLETED", "STATE_COMPLETED"),
    ]
    for trial, said, state in expected:
        await patch(world, trial, said)
        assert (await experiment_of(world, experiment))["state"] == state


@pytest.mark.parametrize("over", [False, True], ids=["running", "forgotten"])
async def test_what_only_the_cluster_can_do_is_refused(world: ApiWorld, over: bool) -> None:
    experiment, trial = await put(world)
    await start(world, trial["id"])
    if over:
        await patch(world, trial["id"], "STATE_COMPLETED")
        await tick(world, DAY)
    url = f"/api/v1/experiments/{experiment}"
    for verb in ("activate", "pause", "cancel", "kill"):
        error = await world.refused(400, "POST", f"{url}/{verb}")
        assert f"experiment {experiment} is unmanaged" in error
    assert "unmanaged" in await world.refused(
        400, "POST", "/api/v1/experiments/continue", {"id": experiment}
    )
    if not over:
        for resources in ({"priority": 1}, {"maxSlots": 1}):
            error = await world.refused(400, "PATCH", url, {"resources": resources})
            assert "unmanaged" in error
        await world.refused(400, "POST", f"/api/v1/trials/{trial['id']}/kill")
        await world.refused(400, "DELETE", url)


async def test_it_is_in_no_queue(world: ApiWorld) -> None:
    experiment, trial = await put(world)
    await start(world, trial["id"])
    assert not world.services.cluster.queue("default")
    assert (await world.ok("GET", "/api/v1/job-queues-v2?resourcePool=default"))["jobs"] == []
    shown = await world.ok("GET", f"/api/v1/experiments/{experiment}")
    assert shown["jobSummary"] is None
    job = shown["experiment"]["jobId"]
    said = f"experiment {experiment} is unmanaged"
    update = {"updates": [{"jobId": job, "priority": 1}]}
    assert said in await world.refused(400, "POST", "/api/v1/job-queues", update)
    for path in (job, f"{job}/explain"):
        assert said in await world.refused(400, "GET", f"/api/v1/windlass/jobs/{path}")


async def test_labels_archive_and_deletion(world: ApiWorld) -> None:
    experiment, trial = await put(world)
    url = f"/api/v1/experiments/{experiment}"
    await start(world, trial["id"])
    await world.ok("PATCH", url, {"name": "renamed", "labels": ["mine"]})
    await patch(world, trial["id"], "STATE_COMPLETED")
    await world.ok("POST", f"{url}/archive")
    listed = (await world.ok("GET", "/api/v1/experiments?archived=true"))["experiments"]
    assert [(e["name"], e["labels"], e["unmanaged"]) for e in listed] == [
        ("renamed", ["mine"], True)
    ]
    await world.ok("POST", f"{url}/unarchive")
    await world.ok("DELETE", url)
    await world.collected()
    await world.refused(404, "GET", url)
    assert (await world.ok("PUT", EX1, NEW))["experiment"]["id"] != experiment


async def test_one_that_never_started_can_be_deleted(world: ApiWorld) -> None:
    experiment, _ = await put(world)
    await world.ok("DELETE", f"/api/v1/experiments/{experiment}")
    await world.collected()
    await world.refused(404, "GET", f"/api/v1/experiments/{experiment}")


async def test_what_is_refused(world: ApiWorld) -> None:
    managed = await world.create(SINGLE)
    of_managed = world.trial_id(managed)
    _, trial = await put(world)
    await start(world, trial["id"])
    answers = [
        await world.refused(400, "PUT", EX1, {"config": CONFIG}),
        await world.refused(400, "PUT", "/api/v1/trials", trial_body(managed)),
        await world.refused(400, "PATCH", f"/api/v1/trials/{of_managed}", {}),
        await world.refused(400, "POST", "/api/v1/experiments", {**NEW, "parentId": managed}),
        await world.refused(
            400, "PATCH", f"/api/v1/trials/{trial['id']}", {"state": "STATE_QUEUED"}
        ),
    ]
    for word, answer in zip(
        ("unmanaged", "managed", "managed", "parentId", "state"), answers, strict=True
    ):
        assert word in answer
    again = {"trialId": trial["id"], "resume": False}
    error = await world.refused(400, "POST", f"/api/v1/trials/{trial['id']}/start", again)
    assert "resume" in error
    await world.refused(404, "PUT", "/api/v1/trials", trial_body(99))
    checked = await world.ok("POST", "/api/v1/experiments", {**NEW, "validateOnly": True})
    assert checked["experiment"]["id"] == 0
    assert len((await world.ok("GET", "/api/v1/experiments"))["experiments"]) == 2


async def test_nothing_of_its_machine_is_mounted_or_deleted_here(world: ApiWorld) -> None:
    """Its storage is whatever its process said: no task of the cluster may be sent there."""
    mounts = "bind_mounts: [{host_path: /etc, container_path: /etc2}]\n"
    error = await world.refused(
        400, "POST", "/api/v1/experiments", {"config": CONFIG + mounts, "unmanaged": True}
    )
    assert "bind_mounts" in error
    experiment, trial = await put(world)
    await start(world, trial["id"])
    await save(world, trial, "one", 1)
    await patch(world, trial["id"], "STATE_COMPLETED")
    error = await world.refused(
        400, "POST", "/api/v1/tensorboards", {"experimentIds": [experiment]}
    )
    assert "/srv/unmanaged" in error
    (task,) = (await world.ok("DELETE", "/api/v1/checkpoints", {"checkpointUuids": ["one"]}))[
        "taskIds"
    ]
    await world.collected()
    url = "/api/v1/checkpoints/one"
    assert (await world.ok("GET", url))["checkpoint"]["state"] == "STATE_COMPLETED"
    assert (await world.ok("GET", f"/api/v1/tasks/{task}"))["task"]["endTime"] is not None


async def test_ids_of_another_user(world: ApiWorld) -> None:
    experiment, trial = await put(world)
    await world.ok(
        "POST",
        "/api/v1/users",
        {"user": {"username": "bob", "active": True}, "password": "Correct-horse-1"},
    )
    await world.login("bob", "Correct-horse-1")
    for method, path, body in (
        ("PUT", EX1, NEW),
        ("PUT", "/api/v1/trials", trial_body(experiment)),
        ("PATCH", f"/api/v1/trials/{trial['id']}", {}),
        ("POST", f"/api/v1/trials/{trial['id']}/start", {"resume": True}),
    ):
        await world.refused(403, method, path, body)
    line = {"task_id": trial["taskId"], "rank": "0", "log": "x\n"}
    response = await world.call("POST", "/task-logs", content=json.dumps([line]).encode())
    assert response.status_code == 403
