"""What operators do over REST: the cluster's message, the master's log and its level."""

from __future__ import annotations

import csv
import logging
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.fakes.api_world import SINGLE, ApiWorld

MESSAGE = "/api/v1/master/cluster_message"
CONFIG = "/api/v1/master/config"


async def test_a_message_is_shown_to_everybody_until_it_is_cleared(world: ApiWorld) -> None:
    assert await world.ok("GET", MESSAGE) == {"clusterMessage": None}
    now = world.clock.now().isoformat().replace("+00:00", "Z")
    body = {"message": "hi", "startTime": now, "duration": "24h", "endTime": None}
    await world.ok("PUT", MESSAGE, body)
    shown = (await world.ok("GET", MESSAGE))["clusterMessage"]
    assert shown["message"] == "hi"
    assert shown["endTime"] > shown["startTime"]
    assert (await world.ok("GET", "/api/v1/master", token=""))["clusterMessage"] == shown
    assert "message" in await world.refused(400, "PUT", MESSAGE, {**body, "message": ""})
    await world.ok("DELETE", MESSAGE)
    assert (await world.ok("GET", "/api/v1/master"))["clusterMessage"] is None


async def test_the_log_is_read_from_either_end(world: ApiWorld) -> None:
    logger = logging.Logger("own")
    logger.addHandler(world.services.own_log.handler)
    for text in "abc":
        logger.warning(text)
    found = [one["logEntry"] for one in await world.lines("/api/v1/master/logs?offset=-2")]
    assert [(one["id"], one["message"], one["level"], one["logger"]) for one in found] == [
        (2, "b", "LOG_LEVEL_WARNING", "own"),
        (3, "c", "LOG_LEVEL_WARNING", "own"),
    ]
    (first,) = await world.lines("/api/v1/master/logs?limit=1")
    assert first["logEntry"]["message"] == "a"
    await world.refused(400, "GET", "/api/v1/master/logs?limit=1&follow=true")


@pytest.mark.parametrize("mask", [{"paths": ["log.level"]}, "log.level"])
async def test_the_level_changes_until_a_restart(world: ApiWorld, mask: object) -> None:
    body = {"config": {"log": {"level": "LOG_LEVEL_WARNING", "color": False}}, "fieldMask": mask}
    await world.ok("PATCH", CONFIG, body)
    shown = (await world.ok("GET", CONFIG))["config"]["log"]
    assert shown == {"level": "warn", "color": True}


@pytest.mark.parametrize(
    ("paths", "log"),
    [(["port"], {}), ([], {}), (["log.level"], {}), (["log.color"], {"level": "LOG_LEVEL_INFO"})],
)
async def test_nothing_else_can_be_changed(world: ApiWorld, paths: object, log: object) -> None:
    body = {"config": {"log": log}, "fieldMask": {"paths": paths}}
    message = await world.refused(400, "PATCH", CONFIG, body)
    assert message.startswith(("fieldMask.paths: ", "config.log."))


RAW = "resources/allocation/raw"
TIMES = "timestamp_after=2020-01-01T00:00:00&timestamp_before=2040-01-01T00:00:00Z"
DAYS = "start_date=2026-01-01&end_date=2026-12-31&period=RESOURCE_ALLOCATION_AGGREGATION_PERIOD_"


@pytest.fixture
async def used(world: ApiWorld) -> ApiWorld:
    """An experiment has run on one slot for an hour."""
    await world.add_agent("a", slots=1)
    await world.run_of(await world.create(SINGLE.replace("[first]", "[l, m]")))
    world.clock.advance(3600)
    return world


async def csv_of(world: ApiWorld, path: str) -> list[list[str]]:
    response = await world.call("GET", path)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/csv")
    return list(csv.reader(response.text.splitlines()))


async def test_allocations_are_exported_one_by_one(used: ApiWorld) -> None:
    header, row = await csv_of(used, f"/resources/allocation/allocations-csv?{TIMES}")
    shown = dict(zip(header, row, strict=True))
    assert shown["allocation_id"].endswith(".1")
    del shown["allocation_id"]
    start = used.clock.now() - timedelta(hours=1)
    assert shown == {
        "task_type": "TRIAL",
        "username": "admin",
        "workspace_name": "Uncategorized",
        "experiment_id": "1",
        "slots": "1",
        "start_time": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "end_time": "",
        "imagepulling_time": "",
        "slot_hours": "1.0",
        "resource_pool": "default",
    }


async def test_raw_says_the_same_as_csv_and_json(used: ApiWorld) -> None:
    header, row = await csv_of(used, f"/{RAW}?{TIMES}")
    (entry,) = (await used.ok("GET", f"/api/v1/{RAW}?{TIMES}"))["resourceEntries"]
    shown = dict(zip(header, row, strict=True))
    assert (shown["kind"], shown["labels"], shown["seconds"]) == ("training", "l,m", "3600.0")
    assert (entry["experimentId"], entry["labels"]) == (1, ["l", "m"])
    assert shown["start_time"] == entry["startTime"]


async def test_raw_tells_validations_and_checkpoints_from_training(used: ApiWorld) -> None:
    """Their reports follow others of the same batch."""
    run, begun = await used.run_of(1), used.clock.now() - timedelta(hours=1)
    for group, steps, seconds in (
        ("training", 4, 0),
        ("validation", 4, 120),
        ("training", 8, 600),
        ("validation", 9, 60),
    ):
        used.clock.advance(seconds)
        assert (await used.report(used.trial_id(1), group, steps, loss=0.5)).status_code == 200
    used.clock.advance(30)
    await used.checkpoint(run, str(uuid4()), 9, at=used.clock.now().isoformat())
    used.clock.advance(10)
    entries = (await used.ok("GET", f"/api/v1/{RAW}?{TIMES}"))["resourceEntries"]
    found = {entry["kind"]: entry["seconds"] for entry in entries}
    assert found == {"training": 3600 + 600 + 60 + 10, "validation": 120, "checkpointing": 30}
    after, before = (f"{begun + timedelta(minutes=n):%Y-%m-%dT%H:%M:%SZ}" for n in (0, 1))
    first = f"{RAW}?timestamp_after={after}&timestamp_before={before}"
    (entry,) = (await used.ok("GET", f"/api/v1/{first}"))["resourceEntries"]
    assert (entry["kind"], entry["seconds"]) == ("training", 60)


async def test_pulls_of_images_have_their_times(world: ApiWorld) -> None:
    await world.add_agent("a", slots=1, pull_s=0.01)
    await world.run_of(await world.create())
    header, row = await csv_of(world, f"/resources/allocation/allocations-csv?{TIMES}")
    assert dict(zip(header, row, strict=True))["imagepulling_time"] == "0.0"


async def test_json_of_several_pages_is_one_object(
    used: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await used.add_agent("b", slots=1)
    await used.run_of(await used.create())
    monkeypatch.setattr("master.usage.allocations.PAGE", 1)
    found = await used.ok("GET", f"/api/v1/{RAW}?{TIMES}")
    assert [entry["experimentId"] for entry in found["resourceEntries"]] == [1, 2]
    none = TIMES.replace("2040", "2021")
    assert await used.ok("GET", f"/api/v1/{RAW}?{none}") == {"resourceEntries": []}


@pytest.mark.parametrize(("period", "length"), [("DAILY", 10), ("MONTHLY", 7)])
async def test_sums_by_day_and_month(used: ApiWorld, period: str, length: int) -> None:
    path = f"resources/allocation/aggregated?{DAYS}{period}"
    header, *rows = await csv_of(used, f"/{path}")
    (entry, *_) = (await used.ok("GET", f"/api/v1/{path}"))["resourceEntries"]
    assert header == ["aggregation_type", "aggregation_key", "date", "seconds"]
    total = sum(float(seconds) for kind, _, _, seconds in rows if kind == "total")
    assert total == 3600
    assert {len(day) for *_, day, _ in rows} == {length}
    assert set(entry["byExperimentLabel"]) == {"l", "m"}


@pytest.mark.parametrize(
    "path",
    [
        f"/{RAW}?timestamp_after=2026-01-01T00:00:00Z",
        f"/{RAW}?timestamp_after=2026-01-02T00:00:00Z&timestamp_before=2026-01-01T00:00:00Z",
        f"/{RAW}?timestamp_after=x&timestamp_before=y",
        "/resources/allocation/aggregated?start_date=2026-01-02&end_date=2026-01-01&period=DAILY",
        "/resources/allocation/aggregated?start_date=2026-01-01&end_date=2026-01-01",
        "/resources/allocation/aggregated?start_date=0001-01-01&end_date=9999-12-31&period="
        "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY",
    ],
)
async def test_times_that_make_no_sense_are_refused(world: ApiWorld, path: str) -> None:
    message = await world.refused(400, "GET", path)
    assert message.startswith(("timestamp", "end", "period"))
