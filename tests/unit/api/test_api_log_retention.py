"""Setting how long task logs are kept, over REST."""

from __future__ import annotations

import pytest

from tests.fakes.api_world import SINGLE, ApiWorld

KEPT = SINGLE + "retention_policy: {log_retention_days: 30}\n"


async def remaining(world: ApiWorld, trial_id: int) -> int | None:
    path = f"/api/v1/trials/{trial_id}/remaining_log_retention_days"
    days: int | None = (await world.ok("GET", path))["remainingDays"]
    return days


async def test_the_newest_setting_of_a_trial_counts(world: ApiWorld) -> None:
    experiment, plain = await world.create(KEPT), await world.create()
    trial, other = world.trial_id(experiment), world.trial_id(plain)
    assert [await remaining(world, id_) for id_ in (trial, other)] == [30, None]
    await world.ok("PUT", f"/api/v1/trials/{trial}/retain_logs", {"numDays": 5, "trialId": trial})
    shown = (await world.ok("GET", f"/api/v1/trials/{trial}"))["trial"]
    assert shown["logRetentionDays"] == await remaining(world, trial) == 5
    path = f"/api/v1/experiments/{experiment}/retain_logs"
    message = await world.refused(400, "PUT", path, {"numDays": 3})
    assert "experiment in non terminal state 'ACTIVE', try again later" in message
    await world.ok("POST", f"/api/v1/experiments/{experiment}/kill")
    await world.ok("PUT", path, {"numDays": 0, "experimentId": experiment})
    assert await remaining(world, trial) == 0
    config = (await world.ok("GET", f"/api/v1/experiments/{experiment}"))["experiment"]["config"]
    assert config["retention_policy"] == {"log_retention_days": 0}


async def test_of_several_experiments_each_has_its_answer(world: ApiWorld) -> None:
    ended, runs = await world.create(), await world.create()
    await world.ok("POST", f"/api/v1/experiments/{ended}/kill")
    body = {"experimentIds": [ended, runs, 99], "numDays": -1, "projectId": 1}
    answer = await world.ok("PUT", "/api/v1/projects/1/experiments/retain_logs", body)
    errors = {one["id"]: one["error"] for one in answer["results"]}
    assert errors[ended] == ""
    assert "non terminal" in errors[runs]
    assert errors[99] == "experiment '99' not found"


async def test_cleaning_now_says_how_many_lines_went(world: ApiWorld) -> None:
    experiment = await world.create()
    task = (await world.ok("GET", f"/api/v1/trials/{world.trial_id(experiment)}"))["trial"][
        "taskId"
    ]
    lines = [{"taskId": task, "log": text} for text in ("a", "b")]
    await world.ok("POST", "/api/v1/task/logs", {"logs": lines})
    await world.ok("POST", f"/api/v1/experiments/{experiment}/kill")
    await world.ok("PUT", f"/api/v1/experiments/{experiment}/retain_logs", {"numDays": 0})
    assert int((await world.ok("POST", "/api/v1/cleanup_logs"))["removedCount"]) >= 2
    assert await world.lines(f"/api/v1/tasks/{task}/logs") == []
    assert await world.ok("POST", "/api/v1/cleanup_logs") == {"removedCount": "0"}


@pytest.mark.parametrize("days", [-2, 32768, None, "x"])
async def test_days_out_of_range_are_refused(world: ApiWorld, days: object) -> None:
    experiment = await world.create()
    path = f"/api/v1/experiments/{experiment}/retain_logs"
    assert "numDays" in await world.refused(400, "PUT", path, {"numDays": days})
