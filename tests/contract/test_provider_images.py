"""Images of machines, on each cloud that makes them: from a machine that stopped, or nothing stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.providers.base import FoundState
from provisioner.providers.images import BAKE, ImageOrder, ImageState, MakesImages, image_name
from provisioner.types import Market
from tests.contract.providers.aws import OPTIONS, AwsCase, aws
from tests.contract.providers.base import POOL, ProviderCase, a_token
from tests.contract.providers.gcp import GcpCase, gcp_case
from tests.fakes.fleet_world import CLUSTER, an_intent
from windlass.base.errors import ProviderError


class AwsImages:
    def __init__(self, case: AwsCase) -> None:
        self.case: ProviderCase = case
        self._server = case.server

    def stop(self, instance_id: str) -> None:
        self._server.client().stop_instances(InstanceIds=[instance_id])

    def images_are(self, *, ready: bool) -> None:
        self._server.images_are("available" if ready else "pending")

    def fail(self) -> None:
        self._server.images_are("failed")

    def tags(self) -> list[dict[str, str]]:
        """Of the images and snapshots that are there."""
        client = self._server.client()
        made = [
            *client.describe_images(Owners=["self"])["Images"],
            *client.describe_snapshots(
                OwnerIds=["self"], Filters=[{"Name": "tag-key", "Values": ["windlass:cluster"]}]
            )["Snapshots"],
        ]
        return [{tag["Key"]: tag["Value"] for tag in each["Tags"]} for each in made]

    def lose_reply(self) -> None:
        self._server.rule("CreateImage", lost="reply", times=1)


class GcpImages:
    def __init__(self, case: GcpCase) -> None:
        self.case: ProviderCase = case
        self._cloud = case.fake.cloud

    def stop(self, instance_id: str) -> None:
        self._cloud.stop(instance_id)

    def images_are(self, *, ready: bool) -> None:
        self._set("READY" if ready else "PENDING")

    def fail(self) -> None:
        self._set("FAILED")

    def _set(self, status: str) -> None:
        self._cloud.images_are = status
        for image in self._cloud.images.values():
            image["status"] = status

    def tags(self) -> list[dict[str, str]]:
        return [image["labels"] for image in self._cloud.images.values()]

    def lose_reply(self) -> None:
        self._cloud.faults.lost_images = 1


Images = AwsImages | GcpImages


@pytest.fixture(params=["aws", "gcp"])
async def images(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Images]:
    if request.param == "aws":
        async with aws(tmp_path) as of_aws:
            of_aws.provider._pools = (OPTIONS.but(tag_key="det-lab", tag_value="det-agent-lab"),)
            yield AwsImages(of_aws)
    else:
        async with gcp_case(tmp_path) as of_gcp:
            yield GcpImages(of_gcp)


def maker(images: Images) -> MakesImages:
    provider = images.case.provider
    assert isinstance(provider, MakesImages)
    return provider


async def launched(images: Images) -> ImageOrder:
    provider = images.case.provider
    offer = maker(images).bake_offers(POOL)[0]
    bake_id = f"{BAKE}{a_token()}"
    call = an_intent(offer, 1, token=a_token(), intent_id=bake_id, generation=7)
    made = await images.case.launch(replace(call, request=provider.freeze(call)))
    return ImageOrder(
        bake_id=bake_id,
        cluster_id=CLUSTER,
        pool=POOL,
        name=image_name(POOL, bake_id),
        instance_id=made.instance_ids[0],
        key=offer.key,
    )


async def test_offers_are_on_demand_and_alone(images: Images) -> None:
    offers = maker(images).bake_offers(POOL)
    assert offers
    assert {offer.key.market for offer in offers} == {Market.ON_DEMAND}
    assert all(offer.usd_per_hour > 0 for offer in offers)
    assert maker(images).bake_offers("no such pool") == []


@pytest.mark.slow
async def test_an_image_is_made_of_a_machine_that_has_stopped(images: Images) -> None:
    order = await launched(images)
    assert (await maker(images).make_image(order)).state is ImageState.WAITING
    assert images.tags() == []
    images.images_are(ready=False)
    images.stop(order.instance_id)
    found = {x.instance_id: x for x in await images.case.listed()}
    assert found[order.instance_id].state is not FoundState.ENDED, "it is not cleared away"
    assert (await maker(images).make_image(order)).state is ImageState.MAKING
    assert (await maker(images).make_image(order)).state is ImageState.MAKING
    images.images_are(ready=True)
    answer = await maker(images).make_image(order)
    assert answer.state is ImageState.READY
    assert answer.image_id
    made = images.tags()
    assert made
    for tags in made:
        named = {key.replace(":", "_"): value for key, value in tags.items()}
        assert named["windlass_cluster"] == CLUSTER
        assert named["windlass_intent"] == order.bake_id
        if isinstance(images, AwsImages):
            assert tags["det-lab"] == "det-agent-lab", "policies go by it"
    await images.case.provider.terminate([order.instance_id])
    assert (await maker(images).make_image(order)).image_id == answer.image_id


@pytest.mark.slow
async def test_what_was_made_is_removed_whole(images: Images) -> None:
    order = await launched(images)
    images.stop(order.instance_id)
    await maker(images).make_image(order)
    assert images.tags()
    await images.case.provider.terminate([order.instance_id])
    calls = 0
    while not await maker(images).remove_image(order):
        calls += 1
        assert calls < 5
    assert calls
    assert images.tags() == []
    assert await maker(images).remove_image(order)


async def test_a_lost_reply_makes_no_second_image(images: Images) -> None:
    order = await launched(images)
    images.stop(order.instance_id)
    images.lose_reply()
    with pytest.raises(OSError, match=r"[a-z]"):
        await maker(images).make_image(order)
    assert (await maker(images).make_image(order)).state is ImageState.READY
    assert len({tags.get("Name", "") for tags in images.tags()}) == 1


async def test_an_image_that_the_cloud_cannot_make_is_said(images: Images) -> None:
    order = await launched(images)
    images.fail()
    images.stop(order.instance_id)
    await maker(images).make_image(order)
    with pytest.raises(ProviderError, match="could not make"):
        await maker(images).make_image(order)


async def test_without_its_machine_nothing_comes_of_it(images: Images) -> None:
    order = await launched(images)
    await images.case.provider.terminate([order.instance_id])
    with pytest.raises(ProviderError, match="its machine"):
        await maker(images).make_image(order)
