"""insert and bulkInsert: what the vendor checks, in its words, and what it makes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.fakes.gce import catalogue
from tests.fakes.gce.cloud import Cloud, Operation, last, new_group, which_of
from tests.fakes.gce.faults import Fault, Which

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
MAX_LABELS = 64
MAX_METADATA = 256 * 1024


class Refused(Exception):
    """An answer by HTTP."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(code=reason, message=message, status=status)


def bulk_insert(
    cloud: Cloud, project: str, zone: str, body: dict[str, Any], request_id: str
) -> Operation:
    path = f"{project}/zones/{zone}/instances/bulkInsert"
    known = _replayed(cloud, path, request_id, body)
    if known is not None:
        return known
    count, least = int(body["count"]), int(body.get("minCount") or body["count"])
    names = list(body.get("perInstanceProperties") or {})
    if not names:
        width = body["namePattern"].count("#")
        numbers = (str(number).zfill(width) for number in range(1, count + 1))
        names = [body["namePattern"].replace("#" * width, number) for number in numbers]
    if len(names) != count:
        raise Refused(400, "invalid", "Invalid value for field 'resource.perInstanceProperties'")
    return _made(
        cloud, project, zone, names, body["instanceProperties"], path, request_id, body, least
    )


def insert(
    cloud: Cloud, project: str, zone: str, body: dict[str, Any], request_id: str
) -> Operation:
    path = f"{project}/zones/{zone}/instances"
    known = _replayed(cloud, path, request_id, body)
    if known is not None:
        return known
    return _made(cloud, project, zone, [body["name"]], body, path, request_id, body, 1)


def _made(
    cloud: Cloud,
    project: str,
    zone: str,
    names: list[str],
    properties: dict[str, Any],
    path: str,
    request_id: str,
    body: dict[str, Any],
    least: int,
) -> Operation:
    _check(project, zone, names, properties)
    for name in names:
        if (zone, name) in cloud.machines:
            where = f"projects/{project}/zones/{zone}/instances/{name}"
            raise Refused(409, "alreadyExists", f"The resource '{where}' already exists")
    which = which_of(properties, zone)
    refusal = cloud.refusal_of(which)
    held = any(key.covers(which) for key in cloud.faults.held)
    if refusal is not None and refusal.status:
        raise Refused(refusal.status, refusal.code, refusal.message)
    kind = "bulkInsert" if "count" in body else "insert"
    operation = cloud.operation(
        project,
        zone,
        kind,
        f"projects/{project}/zones/{zone}",
        request_id=request_id,
        group=new_group() if kind == "bulkInsert" else "",
        which=which,
        created=len(names) if kind == "bulkInsert" else None,
    )
    cloud.requests[path, request_id or operation.name] = (_digest(body), operation.name)
    if refusal is None and not cloud.take_stock(which, least):
        refusal = stock_out(which)
    if refusal is not None:
        cloud.fail(operation, refusal)
        operation.done = False  # the first answer never says so
        return operation
    for name in names:
        machine = cloud.add(project, zone, name, json.loads(json.dumps(properties)))
        machine.status = "PENDING" if held else "PROVISIONING"
        operation.machines.append(machine)
    return operation


def _replayed(cloud: Cloud, path: str, request_id: str, body: dict[str, Any]) -> Operation | None:
    if not request_id:
        return None
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", request_id):
        raise Refused(400, "invalid", f"Invalid value for field 'requestId': '{request_id}'.")
    known = cloud.requests.get((path, request_id))
    if known is None:
        return None
    digest, name = known
    if digest != _digest(body):
        raise Refused(
            400,
            "invalid",
            f"Invalid value for field 'requestId': '{request_id}'. "
            "The request ID was already used by a request with different parameters.",
        )
    return cloud.operations[name]


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def stock_out(which: Which) -> Fault:
    return Fault(
        code="ZONE_RESOURCE_POOL_EXHAUSTED",
        message=f"The zone 'projects/acme/zones/{which.zone}' does not have enough resources "
        "available to fulfill the request.  Try a different zone, or try again later.",
    )


def _check(project: str, zone: str, names: list[str], body: dict[str, Any]) -> None:
    for problem in _problems(project, zone, names, body):
        raise problem


def _problems(project: str, zone: str, names: list[str], body: dict[str, Any]) -> Iterator[Refused]:
    """The vendor refuses most of these, and so must the fake, or "wrong image" would test nothing."""
    if zone not in catalogue.ZONES:
        yield Refused(
            404, "notFound", f"The resource 'projects/{project}/zones/{zone}' was not found"
        )
    for name in names:
        if not _NAME.fullmatch(name):
            yield _invalid(
                "name", name, "Must be a match of regex '[a-z]([-a-z0-9]{0,61}[a-z0-9])?'"
            )
    labels = body.get("labels", {})
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            yield _invalid("labels", f"{key}={value}", "Label keys and values are not valid.")
    if len(labels) > MAX_LABELS:
        yield _invalid("labels", str(len(labels)), "Too many labels.")
    items = body.get("metadata", {}).get("items", [])
    if sum(len(item.get("value", "")) for item in items) > MAX_METADATA:
        yield _invalid("metadata", "", "Metadata is too large.")
    yield from _machine_problems(project, zone, body)
    for disk in body.get("disks", ()):
        yield from _disk_problems(disk)
    for interface in body.get("networkInterfaces", ()):
        for key, known in (("network", catalogue.NETWORKS), ("subnetwork", catalogue.SUBNETWORKS)):
            name = last(interface.get(key, "default"))
            if name not in known:
                where = "global/networks" if key == "network" else "regions/r/subnetworks"
                yield Refused(
                    404,
                    "notFound",
                    f"The resource 'projects/{project}/{where}/{name}' was not found",
                )
    for account in body.get("serviceAccounts", ()):
        if account.get("email") not in catalogue.SERVICE_ACCOUNTS:
            yield Refused(
                404,
                "notFound",
                f"The resource of type 'serviceAccount' with id '{account.get('email')}' was not found",
            )


def _machine_problems(project: str, zone: str, body: dict[str, Any]) -> Iterator[Refused]:
    name = last(body.get("machineType", ""))
    if name not in catalogue.TYPES or (name, zone) in catalogue.NOT_IN:
        yield Refused(
            400,
            "invalid",
            f"Invalid value for field 'resource.machineType': '{name}'. "
            f"Machine type with name '{name}' does not exist in zone '{zone}'.",
        )
        return
    attached = body.get("guestAccelerators", ())
    for each in attached:
        model = last(each["acceleratorType"])
        if model not in catalogue.ACCELERATORS:
            where = f"projects/{project}/zones/{zone}/acceleratorTypes/{model}"
            yield Refused(404, "notFound", f"The resource '{where}' was not found")
    if attached and not name.startswith("n1-"):
        yield Refused(
            400,
            "invalid",
            f"[{last(attached[0]['acceleratorType'])}] features are not compatible "
            f"for creating instance with machine type {name}.",
        )
    gpus = attached or catalogue.TYPES[name].gpus
    if gpus and body.get("scheduling", {}).get("onHostMaintenance") != "TERMINATE":
        yield Refused(
            400, "invalid", "Instances with guest accelerators do not support live migration."
        )
    scheduling = body.get("scheduling", {})
    if scheduling.get("provisioningModel") == "FLEX_START" and "maxRunDuration" not in scheduling:
        yield Refused(400, "invalid", "maxRunDuration must be specified for FLEX_START.")


def _disk_problems(disk: dict[str, Any]) -> Iterator[Refused]:
    made_of = disk.get("initializeParams", {})
    image = made_of.get("sourceImage")
    if image is None:
        return
    path = image[image.index("projects/") :] if "projects/" in image else image
    if path not in catalogue.IMAGES:
        yield Refused(404, "notFound", f"The resource '{path}' was not found")
        return
    if int(made_of.get("diskSizeGb", catalogue.IMAGES[path])) < catalogue.IMAGES[path]:
        yield _invalid(
            "disks[0].initializeParams.diskSizeGb",
            str(made_of["diskSizeGb"]),
            f"Requested disk size cannot be smaller than the image size ({catalogue.IMAGES[path]} GB)",
        )


def _invalid(field: str, value: str, why: str) -> Refused:
    return Refused(400, "invalid", f"Invalid value for field 'resource.{field}': '{value}'. {why}")
