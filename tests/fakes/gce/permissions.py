"""What Compute Engine asks of a caller for each call, by the reference of its methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_READS = {
    ("zones",): "compute.zones.list",
    ("regions", "*"): "compute.regions.get",
    ("zones", "*", "machineTypes", "*"): "compute.machineTypes.get",
    ("zones", "*", "acceleratorTypes", "*"): "compute.acceleratorTypes.get",
    ("zones", "*", "reservations"): "compute.reservations.list",
    ("zones", "*", "operations"): "compute.zoneOperations.list",
    ("zones", "*", "operations", "*"): "compute.zoneOperations.get",
    ("zones", "*", "instances", "*"): "compute.instances.get",
    ("zones", "*", "instances", "*", "serialPort"): "compute.instances.getSerialPortOutput",
    ("global", "images", "*"): "compute.images.get",
    ("aggregated", "instances"): "compute.instances.list",
}


def asked_for(method: str, parts: Sequence[str], body: Any) -> set[str]:
    """Permissions; a call that is not here is named as itself, so that no test takes it for allowed."""
    match method, *parts:
        case "POST", "global", "images":
            return {
                *("compute.images.create", "compute.disks.useReadOnly"),
                *(["compute.images.setLabels"] if body.get("labels") else []),
            }
        case "DELETE", "global", "images", _:
            return {"compute.images.delete"}
        case "DELETE", "zones", _, "instances", _:
            return {"compute.instances.delete"}
        case "POST", "zones", _, "instances", _, ("start" | "stop") as verb:
            return {f"compute.instances.{verb}"}
        case "POST", "regions", _, "resourcePolicies":
            return {"compute.resourcePolicies.create"}
        case "POST", "zones", _, "instances", "bulkInsert":
            return {"compute.instances.create", *_of_launch(body["instanceProperties"])}
        case "GET", *_:
            for path, permission in _READS.items():
                if len(path) == len(parts) and all(
                    wanted in ("*", part) for wanted, part in zip(path, parts, strict=True)
                ):
                    return {permission}
    return {f"{method} {'/'.join(parts)}"}


def _of_launch(properties: dict[str, Any]) -> Iterator[str]:
    for disk in properties.get("disks", ()):
        made_of = disk.get("initializeParams")
        yield "compute.disks.use" if made_of is None else "compute.disks.create"
        if made_of and made_of.get("sourceImage"):
            yield "compute.images.useReadOnly"
        if made_of and made_of.get("labels"):
            yield "compute.disks.setLabels"
    for interface in properties.get("networkInterfaces", ()):
        yield "compute.subnetworks.use"
        if interface.get("accessConfigs"):
            yield "compute.subnetworks.useExternalIp"
    if properties.get("metadata", {}).get("items"):
        yield "compute.instances.setMetadata"
    if properties.get("labels"):
        yield "compute.instances.setLabels"
    if properties.get("tags", {}).get("items"):
        yield "compute.instances.setTags"
    if properties.get("resourcePolicies"):
        yield "compute.resourcePolicies.use"
    if properties.get("serviceAccounts"):
        yield "compute.instances.setServiceAccount"
        yield "iam.serviceAccounts.actAs"
