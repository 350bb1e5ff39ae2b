"""Parts of logs, counts and searches over REST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.api_world import ApiWorld

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def url(world: ApiWorld) -> str:
    """Of the log of a trial's task: ten lines, a minute apart."""
    await world.add_agent()
    experiment = await world.create()
    await world.run_of(experiment)
    trial = world.trial_id(experiment)
    task = (await world.ok("GET", f"/api/v1/trials/{trial}"))["trial"]["taskId"]
    await world.services.logs.delete([task])
    lines = [
        {
            "taskId": task,
            "log": f"step {n}",
            "rankId": n % 2,
            "level": "LOG_LEVEL_ERROR" if n == 7 else "LOG_LEVEL_INFO",
            "timestamp": (START + timedelta(minutes=n)).isoformat(),
        }
        for n in range(1, 11)
    ]
    await world.ok("POST", "/api/v1/task/logs", {"logs": lines})
    return f"/api/v1/windlass/tasks/{task}/logs"


async def numbers(world: ApiWorld, url: str) -> list[int]:
    return [line["number"] for line in (await world.ok("GET", url))["lines"]]


async def test_a_part_of_a_log_is_named_in_four_ways(world: ApiWorld, url: str) -> None:
    end = await world.ok("GET", f"{url}/window?before=3")
    assert [(line["number"], line["log"]) for line in end["lines"]] == [
        (8, "step 8"),
        (9, "step 9"),
        (10, "step 10"),
    ]
    assert end["total"] == 10
    around = "before=1&after=2"
    assert await numbers(world, f"{url}/window?line=5&{around}") == [4, 5, 6, 7]
    id_ = end["lines"][0]["id"]
    assert await numbers(world, f"{url}/window?id={id_}&{around}") == [7, 8, 9, 10]
    then = "2026-01-01T00:03:30Z"
    assert await numbers(world, f"{url}/window?time={then}&{around}") == [3, 4, 5, 6]
    assert await numbers(world, f"{url}/window?since={id_}") == [9, 10]
    assert await numbers(world, f"{url}/window?since={2**63 - 1}") == []
    only = "rankIds=1&levels=LOG_LEVEL_INFO"
    assert await numbers(world, f"{url}/window?line=6&before=2&after=2&{only}") == [3, 5, 9]
    await world.refused(400, "GET", f"{url}/window?line=1&since=2")
    await world.refused(400, "GET", f"{url}/window?line=0")
    await world.refused(404, "GET", f"{url}/window?id=999999")


async def test_lines_are_counted_by_time(world: ApiWorld, url: str) -> None:
    found = await world.ok("GET", f"{url}/counts?buckets=5")
    assert (found["total"], found["bucketS"]) == (10, 120)
    assert [one["lines"] for one in found["counts"]] == [2, 2, 2, 2, 2]
    assert found["counts"][1]["start"] == "2026-01-01T00:03:00.000000Z"


async def test_a_search_tells_hits_and_how_far_it_is(world: ApiWorld, url: str) -> None:
    first, *_, last = await world.lines(f"{url}/search?text=step 1&limit=1&buckets=5")
    assert (first["looked"], first["total"]) == (0, 10)
    assert (last["looked"], last["found"]) == (10, 2)
    steps = await world.lines(f"{url}/search?regex=step [3-8]$&levels=LOG_LEVEL_ERROR")
    (hit,) = [hit for step in steps for hit in step["hits"]]
    assert (hit["number"], hit["log"]) == (7, "step 7")
    assert [one["lines"] for step in steps for one in step["counts"]] == [1]
    for wrong in ("", "?text=a&regex=b", "?regex=(", "?text=a&limit=10001"):
        await world.refused(400, "GET", f"{url}/search{wrong}")
