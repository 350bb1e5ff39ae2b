"""What happened to experiments and trials, in order, and where their trials ran."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_world import ASHA, ApiWorld, api_world


@pytest.fixture
async def stored(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On each database."""
    async with api_world(tmp_path, db_url=db_url) as opened:
        await opened.login()
        yield opened


async def events(world: ApiWorld, of: str, **query: Any) -> list[dict[str, Any]]:
    found = await world.ok("GET", f"/api/v1/windlass/{of}/events", params=query)
    return list(found["events"])


async def preempted_and_failed(world: ApiWorld) -> tuple[int, int]:
    """An experiment and its trial: run 1 was paused, run 2 failed, run 3 goes on."""
    await world.add_agent()
    experiment = await world.create()
    trial = world.trial_id(experiment)
    run = await world.run_of(experiment)
    world.clock.advance(10)
    await world.checkpoint(run, "ckpt", 5, at=world.clock.now().isoformat())
    token = world.task_token(run)
    url = f"/api/v1/allocations/{run.id}"
    await world.ok("POST", f"{url}/ready", {}, token=token)
    world.clock.advance(10)
    await world.ok("POST", f"/api/v1/experiments/{experiment}/pause")
    world.clock.advance(10)
    await world.ok("POST", f"{url}/signals/ack_preemption", {}, token=token)
    await world.finish(run)
    await world.ok("POST", f"/api/v1/experiments/{experiment}/activate")
    world.clock.advance(10)
    await world.finish(await world.run_of(experiment), 3)
    await world.run_of(experiment)
    return experiment, trial


async def test_events_are_in_order_and_say_what_happened(world: ApiWorld) -> None:
    experiment, trial = await preempted_and_failed(world)
    world.clock.advance(10)
    await world.finish(await world.run_of(experiment))
    found = await events(world, f"experiments/{experiment}")
    assert [one["at"] for one in found] == sorted(one["at"] for one in found)
    assert [one["kind"] for one in found] == [
        "experiment_created",
        "trial_created",
        "allocation_queued",
        "allocation_started",
        "checkpoint_reported",
        "preemption_requested",
        "allocation_ended",
        "allocation_queued",
        "allocation_started",
        "allocation_ended",
        "allocation_queued",
        "allocation_started",
        "allocation_ended",
        "trial_ended",
        "experiment_ended",
    ]
    texts = [one["text"] for one in found]
    assert "Run 1 requested 1 slot in pool default" in texts
    assert "Run 1 started on node-1" in texts
    assert "Checkpoint ckpt at step 5." in texts
    assert any("Run 1 was asked to save a checkpoint and leave" in text for text in texts)
    assert any(text.startswith("Run 1 ended: allocation preempted") for text in texts)
    problems = [one["text"] for one in found if one["isProblem"]]
    assert len(problems) == 1
    assert problems[0].startswith("Run 2 ended: allocation failed")
    assert texts[-1] == "Experiment ended: completed"
    of_trial = await events(world, f"trials/{trial}")
    assert of_trial == [one for one in found if one["trialId"] == trial]


async def test_events_come_by_pages_from_either_end(stored: ApiWorld) -> None:
    experiment, trial = await preempted_and_failed(stored)
    for of in (f"experiments/{experiment}", f"trials/{trial}"):
        found = await events(stored, of)
        paged = [one for at in range(0, 20, 4) for one in await page_of(stored, of, at, len(found))]
        assert paged == found
        assert await events(stored, of, orderBy="ORDER_BY_DESC") == found[::-1]
        answer = await stored.ok("GET", f"/api/v1/windlass/{of}/events", params={"limit": 1})
        assert answer["pagination"]["total"] == len(found)


async def page_of(world: ApiWorld, of: str, offset: int, total: int) -> list[dict[str, Any]]:
    return await events(world, of, offset=offset, limit=4) if offset <= total else []


async def test_runs_say_when_they_waited_where_they_ran_and_why_they_ended(
    world: ApiWorld,
) -> None:
    experiment, trial = await preempted_and_failed(world)
    world.clock.advance(10)
    await world.finish(await world.run_of(experiment))
    answer = await world.ok("GET", f"/api/v1/windlass/trials/{trial}/allocations")
    runs = answer["allocations"]
    assert [(one["runId"], one["outcome"], one["state"]) for one in runs] == [
        (1, "preempted", "ENDED"),
        (2, "failed", "ENDED"),
        (3, "finished", "ENDED"),
    ]
    first = runs[0]
    assert first["requestedAt"] <= first["startedAt"] < first["preemptionRequestedAt"]
    assert first["preemptionRequestedAt"] < first["endedAt"]
    assert first["machines"] == [
        {"agentId": "node-1", "slots": 1, "offer": None, "usdPerHour": None}
    ]
    assert runs[1]["preemptionRequestedAt"] is None
    page = await world.ok(
        "GET", f"/api/v1/windlass/trials/{trial}/allocations", params={"offset": 2, "limit": 1}
    )
    assert (page["allocations"], page["pagination"]["total"]) == (runs[2:], 3)


async def test_what_waits_has_neither_machine_nor_end(world: ApiWorld) -> None:
    experiment = await world.create(ASHA)
    trial = world.trial_id(experiment)
    (run,) = (await world.ok("GET", f"/api/v1/windlass/trials/{trial}/allocations"))["allocations"]
    assert (run["state"], run["machines"], run["endedAt"], run["outcome"]) == (
        "QUEUED",
        [],
        None,
        None,
    )
    found = await events(world, f"experiments/{experiment}")
    assert {one["kind"] for one in found} == {
        "experiment_created",
        "trial_created",
        "allocation_queued",
    }
    assert len({one["trialId"] for one in found}) == 5


async def test_what_is_not_there_is_not_found(world: ApiWorld) -> None:
    for path in ("experiments/99/events", "trials/99/events", "trials/99/allocations"):
        await world.refused(404, "GET", f"/api/v1/windlass/{path}")
    experiment = await world.create()
    url = f"/api/v1/windlass/experiments/{experiment}/events"
    assert "limit" in await world.refused(400, "GET", url, params={"limit": 1001})
