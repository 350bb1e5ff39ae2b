"""Submissions whose checkpoints could not be stored are refused at once; the storage is a real server here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from master.core.expconf import ClusterDefaults
from tests.fakes.api_world import SINGLE, ApiWorld, api_world
from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, keys, s3_client, s3_server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with s3_server() as url:
        s3_client(url).create_bucket(Bucket="ours")
        yield url


@pytest.fixture
async def world(tmp_path: Path, url: str) -> AsyncIterator[ApiWorld]:
    storage = {
        "type": "s3",
        "bucket": "ours",
        "prefix": "checkpoints",
        "endpoint_url": url,
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
    }
    async with api_world(tmp_path, defaults=ClusterDefaults(checkpoint_storage=storage)) as world:
        await world.login()
        yield world


@pytest.mark.parametrize("only", [True, False])
async def test_a_bucket_that_is_not_there_is_refused(world: ApiWorld, url: str, only: bool) -> None:
    text = SINGLE + "checkpoint_storage: {type: s3, bucket: nowhere}\n"
    body = {"config": text, "validateOnly": only, "activate": True, "modelDefinition": []}
    said = await world.refused(400, "POST", "/api/v1/experiments", body)
    assert said == (
        "invalid experiment configuration: <config>.checkpoint_storage.bucket: "
        f"s3://nowhere/checkpoints at {url}: there is no such bucket: create it, or correct its name (NoSuchBucket)"
    )
    assert SECRET_KEY not in said
    listed = await world.ok("GET", "/api/v1/experiments")
    assert listed["experiments"] == []


@pytest.mark.slow
async def test_a_storage_that_works_is_accepted_and_left_as_it_was(
    world: ApiWorld, url: str
) -> None:
    await world.create(SINGLE)
    assert keys(s3_client(url), "ours") == []


async def test_addresses_that_a_user_names_are_not_asked(world: ApiWorld) -> None:
    text = SINGLE + "checkpoint_storage: {type: s3, endpoint_url: 'http://127.0.0.1:1'}\n"
    await world.create(text)


@pytest.mark.parametrize(
    ("section", "at_ours"), [("", True), ("{type: s3, endpoint_url: 'http://127.0.0.1:1'}", False)]
)
async def test_readers_are_told_whether_the_operator_chose_the_address(
    world: ApiWorld, section: str, at_ours: bool
) -> None:
    await world.add_agent()
    text = SINGLE + (f"checkpoint_storage: {section}\n" if section else "")
    await world.checkpoint(await world.run_of(await world.create(text)), "c-1", 1)
    shown = await world.ok("GET", "/api/v1/checkpoints/c-1")
    assert shown["checkpoint"]["clusterStorage"] is at_ours
