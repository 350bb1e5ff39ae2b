"""The job queue over REST: listings, changes, statistics, explanations, and the resources of an experiment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from master.core.scheduler.types import SchedulerSettings
from tests.fakes.api_world import SINGLE, ApiWorld, api_world

QUEUES = "/api/v1/job-queues"


@pytest.fixture
async def queue_world(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    """A pool with priorities and no agents: whatever comes waits."""
    scheduler = SchedulerSettings(type="priority", preemption=True)
    async with api_world(tmp_path, scheduler=scheduler) as opened:
        await opened.login()
        yield opened


async def submit(world: ApiWorld, **options: Any) -> str:
    """A job of its own second; its id."""
    world.clock.advance(1)
    id_ = await world.create(**options)
    return str((await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]["jobId"])


async def listed(world: ApiWorld, query: str = "") -> list[dict[str, Any]]:
    return [one["full"] for one in (await world.ok("GET", f"{QUEUES}-v2{query}"))["jobs"]]


async def order(world: ApiWorld, query: str = "") -> list[str]:
    return [job["jobId"] for job in await listed(world, query)]


async def change(world: ApiWorld, job_id: str, **fields: Any) -> None:
    await world.ok("POST", QUEUES, {"updates": [{"jobId": job_id, **fields}]})


async def test_a_job_as_the_contract_has_it(queue_world: ApiWorld) -> None:
    first, second = await submit(queue_world), await submit(queue_world)
    (_, job) = await listed(queue_world)
    assert "no agents in service" in job["waitingReason"]
    assert job == {
        "jobId": second,
        "type": "TYPE_EXPERIMENT",
        "name": "tiny",
        "entityId": "2",
        "username": "admin",
        "userId": 1,
        "resourcePool": "default",
        "submissionTime": "2026-01-01T00:00:02.000000Z",
        "isPreemptible": True,
        "priority": 42,
        "weight": 1.0,
        "maxSlots": None,
        "requestedSlots": 1,
        "allocatedSlots": 0,
        "progress": 0.0,
        "workspaceId": 1,
        "summary": {"state": "STATE_QUEUED", "jobsAhead": 1},
        "position": 2,
        "waitingReason": job["waitingReason"],
    }
    whole = await queue_world.ok("GET", QUEUES)
    assert whole["jobs"] == await listed(queue_world)
    assert whole["pagination"]["total"] == 2
    answer = await queue_world.ok("GET", "/api/v1/experiments/2")
    assert answer["jobSummary"] == job["summary"]
    assert await order(queue_world, "?orderBy=ORDER_BY_DESC") == [second, first]
    assert await order(queue_world, "?offset=1&limit=1") == [second]
    assert await order(queue_world, "?states=STATE_SCHEDULED") == []
    assert len(await order(queue_world, "?resourcePool=default")) == 2
    await queue_world.refused(404, "GET", f"{QUEUES}?resourcePool=nowhere")


async def test_jobs_that_run_and_jobs_that_are_paused(queue_world: ApiWorld) -> None:
    running = await submit(queue_world)
    paused = await submit(queue_world, activate=False)
    await queue_world.add_agent()
    await queue_world.run_of(1)
    (job,) = await listed(queue_world)
    assert (job["jobId"], job["allocatedSlots"], job["waitingReason"]) == (running, 1, None)
    assert job["summary"] == {"state": "STATE_SCHEDULED", "jobsAhead": 0}
    found = (await queue_world.ok("GET", f"/api/v1/windlass/jobs/{paused}"))["job"]
    assert (found["entityId"], found["summary"], found["resourcePool"]) == ("2", None, "default")
    abbreviated = await queue_world.ok("GET", f"/api/v1/windlass/jobs/{running[:6]}")
    assert abbreviated["job"] == job
    await queue_world.refused(404, "GET", "/api/v1/windlass/jobs/nowhere")


async def test_priorities_moves_and_their_order(queue_world: ApiWorld) -> None:
    a, b, c = [await submit(queue_world) for _ in range(3)]
    await change(queue_world, c, priority=1, weight=None, resourcePool=None)
    assert await order(queue_world) == [c, a, b]
    await change(queue_world, a, behindOf=b)
    assert await order(queue_world) == [c, b, a]
    await change(queue_world, c, aheadOf=a)
    assert await order(queue_world) == [b, c, a]
    assert {job["priority"] for job in await listed(queue_world)} == {42}
    await change(queue_world, b, weight=2.5, priority=None)
    assert (await listed(queue_world))[0]["weight"] == 2.5
    config = (await queue_world.ok("GET", "/api/v1/experiments/2"))["config"]
    assert config["resources"]["weight"] == 2.5


async def test_a_batch_tries_everything_and_names_what_failed(queue_world: ApiWorld) -> None:
    a, b = await submit(queue_world), await submit(queue_world)
    updates = [
        {"jobId": "nobody", "priority": 1},
        {"jobId": b, "priority": 1},
        {"jobId": a, "priority": 100},
        {"jobId": a, "weight": -1},
        {"jobId": a, "priority": None},
        {"jobId": a, "priority": 1, "weight": 1},
        {"jobId": a, "resourcePool": "nowhere"},
    ]
    said = await queue_world.refused(400, "POST", QUEUES, {"updates": updates})
    assert said.startswith("6 of 7 updates failed: job nobody: job 'nobody' not found; job ")
    assert said.count(f"job {a}: ") == 5
    assert "nowhere" in said
    assert await order(queue_world) == [b, a]
    for update, status in zip(updates, (404, 200, 400, 400, 400, 400), strict=False):
        response = await queue_world.call("POST", QUEUES, {"updates": [update]})
        assert response.status_code == status, response.text
    await queue_world.ok("POST", QUEUES, {"updates": []})
    await queue_world.refused(400, "POST", QUEUES, {"updates": [{"jobId": a, "priority": "x"}]})
    await queue_world.refused(400, "POST", QUEUES, {"updates": [{}] * 1001})


async def test_only_people_change_the_queue(queue_world: ApiWorld) -> None:
    job_id = await submit(queue_world)
    await queue_world.add_agent()
    token = queue_world.task_token(await queue_world.run_of(1))
    assert (await queue_world.ok("GET", QUEUES, token=token))["jobs"]
    body = {"updates": [{"jobId": job_id, "priority": 1}]}
    await queue_world.refused(403, "POST", QUEUES, body, token=token)
    resources = {"resources": {"priority": 1}}
    await queue_world.refused(403, "PATCH", "/api/v1/experiments/1", resources, token=token)
    assert (await listed(queue_world))[0]["priority"] == 42


async def test_why_a_job_waits(queue_world: ApiWorld) -> None:
    await submit(queue_world)
    job_id = await submit(queue_world)
    url = f"/api/v1/windlass/jobs/{job_id[:8]}/explain"
    said = await queue_world.ok("GET", url)
    assert said["text"] == "1 request waiting for slots, 1 job ahead"
    assert said["job"] == (await listed(queue_world))[1]
    (run,) = said["waiting"]
    assert (run["name"], run["slots"]) == ("Trial 2 (Experiment 2)", 1)
    assert run["since"] == "2026-01-01T00:00:02.000000Z"
    assert run["reason"]["kind"] == "no_such_agent"
    assert run["reason"]["text"] == said["job"]["waitingReason"]
    assert run["advice"].startswith("add agents that can hold 1 slot to pool default")
    assert run["expectedStart"] is None
    assert (said["waitingTotal"], said["holding"], said["lastRelease"]) == (1, [], None)
    await queue_world.add_agent()
    await queue_world.run_of(2)
    said = await queue_world.ok("GET", url)
    assert (said["text"], said["waiting"]) == ("holds 1 slot", [])
    (run,) = said["holding"]
    assert (run["agents"], run["releasing"]) == ({"node-1": 1}, False)
    assert run["since"] == "2026-01-01T00:00:02.000000Z"
    await queue_world.refused(404, "GET", "/api/v1/windlass/jobs/nowhere/explain")


async def test_statistics(queue_world: ApiWorld) -> None:
    await submit(queue_world)
    queue_world.clock.advance(30)
    await queue_world.add_agent(slots=1)
    await queue_world.run_of(1)
    await submit(queue_world)
    answer = await queue_world.ok("GET", f"{QUEUES}/stats?resourcePools=default")
    (pool,) = answer["results"]
    assert pool["resourcePool"] == "default"
    assert pool["stats"] == {"queuedCount": 1, "scheduledCount": 1}
    (day,) = pool["aggregates"]
    assert day == {"periodStart": "2026-01-01", "seconds": pytest.approx(30, abs=0.01)}
    assert await queue_world.ok("GET", f"{QUEUES}/stats") == answer
    await queue_world.refused(404, "GET", f"{QUEUES}/stats?resourcePools=nowhere")


async def test_the_resources_of_an_experiment(queue_world: ApiWorld) -> None:
    config = SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 1, max_slots: 4")
    job_id = await submit(queue_world, config=config)
    url = "/api/v1/experiments/1"

    async def patch(**resources: Any) -> dict[str, Any]:
        answer = await queue_world.ok("PATCH", url, {"id": 1, "resources": resources})
        return dict(answer["experiment"]["config"]["resources"])

    found = await patch(weight=2.5)
    assert (found["weight"], found["max_slots"]) == (2.5, 4), "what is missing stays"
    found = await patch(priority=7, weight=None)
    assert (found["priority"], found["weight"]) == (7, 2.5)
    assert (await patch(maxSlots=2))["max_slots"] == 2
    assert (await listed(queue_world))[0]["maxSlots"] == 2
    assert (await patch(max_slots=None))["max_slots"] is None
    assert (await listed(queue_world))[0]["priority"] == 7
    assert (await listed(queue_world))[0]["jobId"] == job_id
    for wrong in ({"priority": 0}, {"weight": 0}, {"maxSlots": -1}, {"weight": "heavy"}):
        body = {"name": "not this either", "resources": wrong}
        assert await queue_world.refused(400, "PATCH", url, body)
    experiment = (await queue_world.ok("GET", url))["experiment"]
    assert (experiment["name"], experiment["config"]["resources"]["priority"]) == ("tiny", 7)


async def test_the_resources_of_an_experiment_that_is_over_are_history(
    queue_world: ApiWorld,
) -> None:
    await submit(queue_world)
    url = "/api/v1/experiments/1"
    await queue_world.ok("POST", f"{url}/kill")
    body = {"name": "not this either", "resources": {"priority": 7}}
    assert "Experiment 1 has already" in await queue_world.refused(400, "PATCH", url, body)
    assert (await queue_world.ok("PATCH", url, {"resources": {}}))["experiment"]["name"] == "tiny"
    await queue_world.refused(404, "PATCH", "/api/v1/experiments/99", body)
    assert await listed(queue_world) == []
