"""One launch: the call, and its operation, which is followed to its end. A stock-out arrives inside the operation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import Accepted, LaunchAnswer, LaunchIntent, LaunchResult
from provisioner.providers.errors import Refusal
from provisioner.providers.gcp.client import GceError, GcpClient, RequestPart
from provisioner.providers.gcp.errors import refused_call, refused_launch, refused_stop
from provisioner.providers.gcp.handles import LOOK_AGAIN_S, LaunchHandle
from provisioner.providers.gcp.labels import launch_labels
from provisioner.providers.gcp.machines import WAITING
from provisioner.types import Offer
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonMapping, JsonObject

POLLS_S = (0.2, 0.5, 1.0, 2.0)
"""So long a call waits for its operation. What takes longer is accepted, and looked at again."""
_EXISTS = ("alreadyExists", "409", "resourceInUseByAnotherResource")
_UNKNOWN = ("notFound", "404")


class GcpLaunches:
    """Of one site."""

    def __init__(self, client: GcpClient, name: str) -> None:
        self._client = client
        self._name = name

    async def launch(
        self, intent: LaunchIntent, handle: LaunchHandle, user_data: str
    ) -> LaunchAnswer:
        """`intent.request["properties"]` with labels and user data; all machines or none."""
        body = {
            "count": str(intent.count),
            "minCount": str(intent.count),
            "perInstanceProperties": {name: {"name": name} for name in handle.names},
            "instanceProperties": _properties(intent, user_data),
        }
        try:
            operation = await self._client.call(
                "Instances",
                "bulk_insert",
                zone=handle.zone,
                request_id=handle.request_id,
                bulk_insert_instance_resource_resource=RequestPart(
                    "BulkInsertInstanceResource", body
                ),
            )
        except GceError as error:
            if error.code in _EXISTS:  # Google forgets requests after an hour, names never
                return await self._existing(handle)
            raise refused_launch(error, intent.offer) from None
        for pause_s in POLLS_S:
            if _is_done(operation):
                break
            await asyncio.sleep(pause_s)
            operation = await self._operation(handle.zone, operation.name)
        return _outcome(handle, operation, intent.offer)

    async def answer(self, text: str) -> LaunchAnswer:
        handle = LaunchHandle.read(text, self._name)
        if handle is None:
            raise Refusal(BlockKind.CAPACITY, f"no launch is called {text}")
        operation = await self._found(handle)
        if operation is None:
            return await self._existing(handle)
        return _outcome(handle, operation, handle.offer)

    async def cancel(self, text: str) -> None:
        """Machines that wait are deleted like others, which ends their operation."""
        handle = LaunchHandle.read(text, self._name)
        if handle is None:
            return
        left = await self.delete(dict.fromkeys(handle.names, handle.zone))
        if left:
            raise ProviderError("; ".join(left))
        operation = await self._found(handle)
        if operation is not None and not _is_done(operation):
            raise ProviderError(f"launch {handle.text} is still being made")

    async def stop(self, name: str, zone: str) -> None:
        """The list says when it has stopped."""
        try:
            await self._client.call("Instances", "stop", zone=zone, instance=name)
        except GceError as error:
            raise refused_stop(error) from None

    async def start(self, name: str, zone: str, offer: Offer) -> None:
        """A stock-out arrives inside the operation. What takes longer is asked for again."""
        try:
            operation = await self._client.call("Instances", "start", zone=zone, instance=name)
        except GceError as error:
            raise refused_launch(error, offer) from None
        for pause_s in POLLS_S:
            if _is_done(operation):
                break
            await asyncio.sleep(pause_s)
            operation = await self._operation(zone, operation.name)
        if not _is_done(operation):
            raise TimeoutError(f"{name} is still being started")
        if errors := list(operation.error.errors):
            raise refused_launch(_first(errors), offer)

    async def delete(self, zones: dict[str, str]) -> Sequence[str]:
        """By name -> zone. What could not be deleted, and why; unknown ones are gone."""
        return [
            why
            for why in await asyncio.gather(*(self._delete(n, z) for n, z in zones.items()))
            if why
        ]

    async def _delete(self, name: str, zone: str) -> str:
        try:
            await self._client.call("Instances", "delete", zone=zone, instance=name)
        except GceError as error:
            return "" if error.code in _UNKNOWN else f"{name}: {refused_call(error)}"
        return ""

    async def _operation(self, zone: str, name: str) -> Any:
        try:
            return await self._client.call("ZoneOperations", "get", zone=zone, operation=name)
        except GceError as error:  # made or not: the same call is made again
            raise ConnectionError(f"the operation cannot be followed: {error}") from None

    async def _found(self, handle: LaunchHandle) -> Any:
        wanted = f'clientOperationId = "{handle.request_id}"'
        try:
            pages = await self._client.pages(
                "ZoneOperations", "list", zone=handle.zone, filter=wanted
            )
        except GceError as error:
            raise refused_call(error) from None
        return next((operation for page in pages for operation in page.items), None)

    async def _existing(self, handle: LaunchHandle) -> LaunchAnswer:
        """What became of a request of which Google does not know any more."""
        states = await asyncio.gather(*(self._state(handle.zone, name) for name in handle.names))
        if any(state in WAITING for state in states):
            return _accepted(handle, "provisioning")
        if all(states):
            return LaunchResult(instance_ids=handle.names)
        if any(states):
            raise TimeoutError(f"a part of launch {handle.text} exists")
        raise Refusal(BlockKind.CAPACITY, f"launch {handle.text} came to nothing")

    async def _state(self, zone: str, name: str) -> str:
        """Empty: it does not exist."""
        try:
            found = await self._client.call("Instances", "get", zone=zone, instance=name)
        except GceError as error:
            if error.code in _UNKNOWN:
                return ""
            raise refused_call(error) from None
        return str(found.status)


def _outcome(handle: LaunchHandle, operation: Any, offer: Offer) -> LaunchAnswer:
    if not _is_done(operation):
        text = operation.status_message or "being provisioned"
        return _accepted(handle, " ".join(text.split()))
    errors = list(operation.error.errors)
    if errors:
        raise refused_launch(_first(errors), offer)
    return LaunchResult(instance_ids=handle.names)


def _properties(intent: LaunchIntent, user_data: str) -> JsonObject:
    made = dict(intent.request["properties"])
    metadata = dict(made.get("metadata", {}))
    script = {"key": "startup-script", "value": user_data}
    made["metadata"] = {**metadata, "items": [script, *metadata.get("items", ())]}
    labels = launch_labels(intent)
    made["labels"] = {**made.get("labels", {}), **labels}
    made["disks"] = [_labelled(disk, labels) for disk in made.get("disks", ())]
    return made


def _labelled(disk: Any, labels: JsonMapping) -> Any:
    """If the launch makes it. Machines do not pass their labels on. What is no disk the vendor refuses."""
    made_of = disk.get("initializeParams") if isinstance(disk, dict) else None
    if not isinstance(made_of, dict):
        return disk
    return {
        **disk,
        "initializeParams": {**made_of, "labels": {**made_of.get("labels", {}), **labels}},
    }


def _is_done(operation: Any) -> bool:
    status = operation.status
    return str(getattr(status, "name", status)) == "DONE"


def _first(errors: Sequence[Any]) -> GceError:
    """Where several went wrong, one that says more than that it did."""
    known = [each for each in errors if each.code != "VM_MIN_COUNT_NOT_REACHED"] or errors
    first = known[0]
    details = [
        {
            "metricName": detail.quota_info.metric_name,
            "limitName": detail.quota_info.limit_name,
            "limit": detail.quota_info.limit,
        }
        for detail in first.error_details
        if detail.quota_info.metric_name
    ]
    return GceError(first.code, first.message, details=details)


def _accepted(handle: LaunchHandle, reason: str) -> Accepted:
    return Accepted(handle=handle.text, look_again_s=LOOK_AGAIN_S, reason=reason)
