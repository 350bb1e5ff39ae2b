"""Images of machines in Compute Engine. What exists is found by the image's name."""

from __future__ import annotations

import uuid
from typing import Any

from provisioner.providers.gcp import labels
from provisioner.providers.gcp.client import GceError, GcpClient, RequestPart
from provisioner.providers.gcp.machines import STOPPED
from provisioner.providers.images import ImageAnswer, ImageOrder, ImageState
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonObject

_UNKNOWN = ("notFound", "404")
_EXISTS = ("alreadyExists", "409")
_NOT_YET = ("resourceNotReady", "resourceInUseByAnotherResource")
_REQUESTS = uuid.UUID("0d8d8b53-51c5-57a5-8a2e-0a1a0f6c9a4e")


def image_path(project: str, name: str) -> str:
    """As `boot_disk_source_image` has it."""
    return f"projects/{project}/global/images/{name}"


async def make_image(client: GcpClient, order: ImageOrder, zone: str) -> ImageAnswer:
    """Raises GceError, ProviderError."""
    image = await _found(client, "Images", image=order.name)
    if image is not None:
        if image.status == "READY":
            path = image_path(client.project, order.name)
            return ImageAnswer(state=ImageState.READY, image_id=path)
        if image.status == "FAILED":
            raise ProviderError(f"Google could not make image {order.name}")
        return ImageAnswer(state=ImageState.MAKING, note=f"Google makes image {order.name}")
    machine = await _found(client, "Instances", zone=zone, instance=order.instance_id)
    if machine is None:
        raise ProviderError(f"its machine {order.instance_id} does not exist any more")
    if machine.status not in STOPPED:
        note = f"the machine is {machine.status.lower()}: it has to stop"
        return ImageAnswer(state=ImageState.WAITING, note=note)
    disk = next((disk.source for disk in machine.disks if disk.boot), "")
    try:
        operation = await client.call(
            "Images",
            "insert",
            image_resource=RequestPart("Image", _image(order, disk)),
            request_id=str(uuid.uuid5(_REQUESTS, order.bake_id)),
        )
    except GceError as error:
        if error.code in (*_EXISTS, *_NOT_YET):
            return ImageAnswer(state=ImageState.MAKING, note=error.message)
        raise
    for failure in operation.error.errors:
        raise ProviderError(failure.message)
    return ImageAnswer(state=ImageState.MAKING, note=f"Google makes image {order.name}")


async def remove_image(client: GcpClient, order: ImageOrder) -> bool:
    """Raises GceError."""
    try:
        await client.call("Images", "delete", image=order.name)
    except GceError as error:
        if error.code in _UNKNOWN:
            return True
        if error.code not in _NOT_YET:
            raise
    return False


def _image(order: ImageOrder, disk: str) -> JsonObject:
    values = {
        labels.CLUSTER: order.cluster_id,
        labels.PROVIDER: order.key.provider,
        labels.POOL: order.pool,
        labels.INTENT: order.bake_id,
    }
    return {
        "name": order.name,
        "sourceDisk": disk,
        "labels": labels.to_labels(values),
        "description": f"Machines of pool {order.pool} of Windlass cluster {order.cluster_id}",
    }


async def _found(client: GcpClient, service: str, **which: str) -> Any:
    """None: it does not exist."""
    try:
        return await client.call(service, "get", **which)
    except GceError as error:
        if error.code in _UNKNOWN:
            return None
        raise
