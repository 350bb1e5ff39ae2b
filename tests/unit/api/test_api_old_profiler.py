"""The profiler calls of older clients, and what containers said of their accelerators."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fakes.api_world import ApiWorld

POST = "/api/v1/trials/profiler/metrics"
AT = "2026-01-01T00:00:0%d.000000Z"


def batch(
    trial: int, name: str, *values: Any, kind: str = "SYSTEM", **labels: str
) -> dict[str, Any]:
    return {
        "values": list(values),
        "batches": list(range(len(values))),
        "timestamps": [AT % n for n in range(len(values))],
        "labels": {
            "trialId": trial,
            "name": name,
            "agentId": "node-1",
            "gpuUuid": "",
            "metricType": f"PROFILER_METRIC_TYPE_{kind}",
            **labels,
        },
    }


async def test_what_older_clients_post_is_streamed_with_what_is_reported_today(
    world: ApiWorld,
) -> None:
    await world.add_agent()
    trial = world.trial_id(experiment := await world.create())
    run = await world.run_of(experiment)
    url = f"/api/v1/trials/{trial}/profiler"
    assert await world.lines(f"{url}/available_series") == []
    posted = [
        batch(trial, "gpu_util", 1.0, "NaN", 3.0, gpuUuid="GPU-1"),
        batch(trial, "dataloader_next", 0.5, kind="TIMING"),
    ]
    await world.ok("POST", POST, {"batches": posted})
    today = {"node-1": {"memory_free": 7.0}}
    assert (await world.report(trial, "memory", 0, **today)).status_code == 200
    shown = [line["batch"] for line in await world.lines(f"{url}/metrics")]
    assert [one["labels"]["name"] for one in shown] == [
        "gpu_util",
        "dataloader_next",
        "memory_free",
    ]
    assert shown[:2] == posted
    (only,) = await world.lines(f"{url}/metrics?labels.metricType=PROFILER_METRIC_TYPE_TIMING")
    assert only["batch"] == posted[1]

    following = asyncio.create_task(world.lines(f"{url}/available_series?follow=true"))
    await world.finish(run)
    names = [[label["name"] for label in line["labels"]] for line in await following]
    assert names == [["dataloader_next", "gpu_util", "memory_free"]]
    summary = (await world.ok("GET", f"/api/v1/trials/{trial}"))["trial"]["summaryMetrics"]
    assert summary == {}, "profiler groups are not summarised"


async def test_bad_batches_are_refused(world: ApiWorld) -> None:
    trial = world.trial_id(await world.create())
    uneven = {**batch(trial, "gpu_util", 1.0, 2.0), "batches": [1]}
    refusal = await world.refused(400, "POST", POST, {"batches": [uneven]})
    assert refusal.endswith("expected the same number of each, not 2, 1 and 2")
    unknown = batch(trial, "gpu_util", 1.0, kind="UNSPECIFIED")
    assert "labels.metricType" in await world.refused(400, "POST", POST, {"batches": [unknown]})
    missing = batch(99, "gpu_util", 1.0)
    await world.refused(404, "POST", POST, {"batches": [missing]})
    await world.refused(404, "GET", "/api/v1/trials/99/profiler/metrics")


async def test_accelerators_of_a_task_are_those_that_its_containers_told(world: ApiWorld) -> None:
    await world.add_agent()
    run = await world.run_of(await world.create())
    told = {
        "containerId": "c",
        "nodeName": "n",
        "acceleratorType": "cuda",
        "acceleratorUuids": ["a"],
    }
    token = world.task_token(run)
    path = f"/api/v1/allocations/{run.id}/acceleratorData"
    await world.ok("POST", path, {"acceleratorData": told}, token=token)
    found = await world.ok("GET", f"/api/v1/tasks/{run.task_id}/acceleratorData")
    place = {"taskId": run.task_id, "allocationId": run.id, "resourcePool": "default"}
    assert found == {"acceleratorData": [{**told, **place}]}
    await world.refused(404, "GET", "/api/v1/tasks/none/acceleratorData")
