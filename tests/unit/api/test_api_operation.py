"""What operators do over REST: the cluster's message, the master's log and its level."""

from __future__ import annotations

import logging

import pytest

from tests.fakes.api_world import ApiWorld

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
    assert [(one["id"], one["message"], one["level"]) for one in found] == [
        (2, "b", "LOG_LEVEL_WARNING"),
        (3, "c", "LOG_LEVEL_WARNING"),
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
