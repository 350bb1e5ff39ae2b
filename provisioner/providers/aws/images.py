"""Images of machines in EC2. What exists is found by the image's name, and its snapshots by the tag of its launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from provisioner.providers.aws import tags
from provisioner.providers.aws.client import AwsClient, AwsError
from provisioner.providers.images import ImageAnswer, ImageOrder, ImageState
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonMapping

_TAGGED = ("image", "snapshot")
_GONE = ("InvalidAMIID.NotFound", "InvalidAMIID.Unavailable", "InvalidSnapshot.NotFound")
_NOT_YET = ("InvalidSnapshot.InUse", "IncorrectState", "IncorrectInstanceState")
_EXISTS = "InvalidAMIName.Duplicate"
_NO_MACHINE = ("shutting-down", "terminated")


def image_tags(order: ImageOrder, own: Mapping[str, str]) -> dict[str, str]:
    """`own`: as the operator gives them to machines; policies go by them."""
    return {
        **own,
        "Name": order.name,
        tags.CLUSTER: order.cluster_id,
        tags.PROVIDER: order.key.provider,
        tags.POOL: order.pool,
        tags.INTENT: order.bake_id,
    }


async def make_image(client: AwsClient, order: ImageOrder, named: Mapping[str, str]) -> ImageAnswer:
    """`named`: its tags. Raises AwsError, ProviderError."""
    for image in await _images(client, order):
        if image["State"] == "available":
            return ImageAnswer(state=ImageState.READY, image_id=image["ImageId"])
        if image["State"] != "pending":
            why = image.get("StateReason", {}).get("Message", image["State"])
            raise ProviderError(f"AWS could not make {image['ImageId']}: {why}")
        return ImageAnswer(state=ImageState.MAKING, note=f"AWS makes {image['ImageId']}")
    state = await _state(client, order)
    if state in _NO_MACHINE:
        raise ProviderError(f"its machine {order.instance_id} is {state}")
    if state != "stopped":
        return ImageAnswer(state=ImageState.WAITING, note=f"the machine is {state}: it has to stop")
    try:
        made = await client.call(
            "ec2",
            "create_image",
            InstanceId=order.instance_id,
            Name=order.name,
            Description=f"Machines of pool {order.pool} of Windlass cluster {order.cluster_id}"[
                :255
            ],
            TagSpecifications=[
                {
                    "ResourceType": resource,
                    "Tags": [{"Key": k, "Value": v} for k, v in named.items()],
                }
                for resource in _TAGGED
            ],
        )
    except AwsError as error:
        if error.code.startswith((_EXISTS, *_NOT_YET)):  # a list may miss what is young
            return ImageAnswer(state=ImageState.MAKING, note=error.message)
        raise
    return ImageAnswer(state=ImageState.MAKING, note=f"AWS makes {made['ImageId']}")


async def remove_image(client: AwsClient, order: ImageOrder) -> bool:
    """Raises AwsError."""
    images = await _images(client, order)
    for image in images:
        await _unless_gone(client, "deregister_image", ImageId=image["ImageId"])
    snapshots = await _snapshots(client, order)
    if not images:  # snapshots of an image that is there are in use
        for snapshot in snapshots:
            await _unless_gone(client, "delete_snapshot", SnapshotId=snapshot["SnapshotId"])
    return not images and not snapshots


async def _images(client: AwsClient, order: ImageOrder) -> Sequence[JsonMapping]:
    reply = await client.call(
        "ec2",
        "describe_images",
        Owners=["self"],
        Filters=[{"Name": "name", "Values": [order.name]}],
    )
    return [each for each in reply["Images"] if each["State"] != "deregistered"]


async def _snapshots(client: AwsClient, order: ImageOrder) -> Sequence[JsonMapping]:
    wanted = [{"Name": f"tag:{tags.INTENT}", "Values": [order.bake_id]}]
    pages = client.pages("ec2", "describe_snapshots", OwnerIds=["self"], Filters=wanted)
    return [each async for page in pages for each in page["Snapshots"]]


async def _state(client: AwsClient, order: ImageOrder) -> str:
    reply = await client.call("ec2", "describe_instances", InstanceIds=[order.instance_id])
    found = [x for group in reply["Reservations"] for x in group["Instances"]]
    return str(found[0]["State"]["Name"]) if found else "terminated"


async def _unless_gone(client: AwsClient, operation: str, **asked: str) -> None:
    try:
        await client.call("ec2", operation, **asked)
    except AwsError as error:
        if not error.code.startswith((*_GONE, *_NOT_YET)):
            raise
