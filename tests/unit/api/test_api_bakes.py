"""Images of machines, over REST."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.api_world import ApiWorld, api_world

BAKES = "/api/v1/windlass/fleet/bakes"


@pytest.fixture
async def elastic(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    async with api_world(tmp_path, elastic=True) as opened:
        await opened.login()
        yield opened


async def test_an_image_that_is_ready_says_what_to_write(elastic: ApiWorld) -> None:
    (made,) = (await elastic.ok("GET", BAKES))["bakes"]
    assert (made["state"], made["imageId"]) == ("ready", "ami-1")
    assert made["setting"] == "image_id: ami-1"
    assert made["offer"] == "aws-us-east-1/us-east-1/us-east-1a/g5/on_demand"
    assert made["endedAt"].endswith("Z")


async def test_a_bake_is_begun_and_cancelled(elastic: ApiWorld) -> None:
    begun = (await elastic.ok("POST", BAKES, {"pool": "default", "instanceType": "g5"}))["bake"]
    assert (begun["state"], begun["by"], begun["note"]) == ("installing", "admin", "being launched")
    assert begun["imageId"] == begun["setting"] == ""
    message = await elastic.refused(409, "POST", BAKES, {"pool": "default"})
    assert "is being baked already" in message
    ended = (await elastic.ok("DELETE", f"{BAKES}/{begun['id']}"))["bake"]
    assert (ended["state"], ended["error"]) == ("cleaning", "cancelled by admin")
    await elastic.refused(404, "DELETE", f"{BAKES}/bake-9")


async def test_a_pool_that_does_not_exist_is_named(elastic: ApiWorld) -> None:
    message = await elastic.refused(404, "POST", BAKES, {"pool": "gpus"})
    assert message == "resource pool 'gpus' not found; there are: default"


async def test_only_administrators_make_images(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login("determined")
        await world.refused(403, "POST", BAKES, {"pool": "default"})
        await world.refused(403, "DELETE", f"{BAKES}/bake-1")
        assert len((await world.ok("GET", BAKES))["bakes"]) == 1


async def test_a_cluster_without_elastic_pools_makes_none(world: ApiWorld) -> None:
    assert (await world.ok("GET", BAKES))["bakes"] == []
    message = await world.refused(409, "POST", BAKES, {"pool": "default"})
    assert "no elastic pool" in message
