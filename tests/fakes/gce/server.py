"""The REST API of the fake, on a free port of 127.0.0.1."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.gce import catalogue
from tests.fakes.gce.cloud import (
    Cloud,
    Machine,
    Operation,
    every,
    machine_view,
    operation_view,
)
from tests.fakes.gce.faults import Fault
from tests.fakes.gce.launches import Refused, bulk_insert, insert
from tests.fakes.gce.permissions import asked_for

ROOT = "/compute/v1/projects/"
_FILTER = re.compile(r"([\w.-]+)\s*(?:=|:|eq)\s*\"?([\w.-]+)\"?")


class FakeGce:
    """A running fake. `url` is what clients take for compute.googleapis.com."""

    def __init__(self, cloud: Cloud, url: str) -> None:
        self.cloud = cloud
        self.url = url

    @property
    def faults(self) -> Any:
        return self.cloud.faults


@contextmanager
def fake_gce() -> Iterator[FakeGce]:
    cloud = Cloud()

    class Bound(_Handler):
        pass

    Bound.cloud = cloud
    server = _Server(("127.0.0.1", 0), Bound)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield FakeGce(cloud, f"http://127.0.0.1:{server.server_port}")
    finally:
        cloud.mend()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class _Hung(Exception):
    """The connection is closed without an answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloud: Cloud

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _serve(self, method: str) -> None:
        split = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}") if length else {}
        if split.path.startswith("/v1/services/"):
            self._billing(query)
            return
        if split.path.endswith(":testIamPermissions"):
            self._granted(body["permissions"])
            return
        if not split.path.startswith(ROOT):
            self._send(404, _error(Fault(code="notFound", message=split.path, status=404)))
            return
        project, *parts = split.path[len(ROOT) :].split("/")
        action = _action(method, parts)
        with self.cloud.lock:
            self.cloud.calls.append(f"{method} {_collection(parts)}")
            self.cloud.heard.append(f"{self.path}\n{json.dumps(body)}")
            self.cloud.permissions |= asked_for(method, parts, body)
            hanging, mended = action in self.cloud.faults.hanging, self.cloud.mended
            fault = self.cloud.faults.next_answer(action)
        if hanging:
            mended.wait()
            self.close_connection = True
            return
        if action == "launch" and self._drops():
            self.close_connection = True
            return
        if fault is not None:
            self._send(fault.status, _error(fault))
            return
        try:
            with self.cloud.lock:
                answer = self._answer(method, project, parts, query, body)
        except Refused as refused:
            self._send(refused.fault.status, _error(refused.fault))
        except _Hung:
            self.close_connection = True
        else:
            self._send(200, answer)

    def _granted(self, wanted: list[str]) -> None:
        denied = self.cloud.denied
        if denied is None:
            message = "Cloud Resource Manager API has not been used in project acme before"
            self._send(403, {"error": {"message": message, "status": "PERMISSION_DENIED"}})
            return
        self._send(200, {"permissions": [each for each in wanted if each not in denied]})

    def _billing(self, query: dict[str, str]) -> None:
        """A page has two rows."""
        refused = self.cloud.billing_refuses
        if refused:
            error = {"code": 403, "message": refused, "status": "PERMISSION_DENIED"}
            self._send(403, {"error": error})
            return
        at = int(query.get("pageToken") or 0)
        skus = self.cloud.skus
        more = str(at + 2) if at + 2 < len(skus) else ""
        self._send(200, {"skus": skus[at : at + 2], "nextPageToken": more})

    def _answer(
        self, method: str, project: str, parts: list[str], query: dict[str, str], body: Any
    ) -> Any:
        match method, *parts:
            case "GET", "zones":
                here = f"{self._url()}/projects/{project}"
                return {"items": [catalogue.zone_view(zone, here) for zone in catalogue.ZONES]}
            case "GET", "zones", zone, "machineTypes":
                return _page(_filtered(catalogue.types_in(_zone(zone)), query), query)
            case "GET", "zones", zone, "machineTypes", name:
                return _one(catalogue.types_in(_zone(zone)), project, zone, "machineTypes", name)
            case "GET", "zones", zone, "acceleratorTypes", name:
                found_gpus = catalogue.accelerators_in(_zone(zone))
                return _one(found_gpus, project, zone, "acceleratorTypes", name)
            case "GET", "zones", zone, "acceleratorTypes":
                return {"items": catalogue.accelerators_in(_zone(zone))}
            case "GET", "zones", zone, "reservations":
                return {"items": self.cloud.reservations.get(_zone(zone), [])}
            case "GET", "zones", zone, "operations":
                return _page(self._operations(zone, query), query)
            case "GET", "zones", _, "operations", name:
                return self._operation(name)
            case "POST", "zones", zone, "instances", "bulkInsert":
                return self._launched(
                    bulk_insert(self.cloud, project, zone, body, query.get("requestId", ""))
                )
            case "POST", "zones", zone, "instances":
                return self._launched(
                    insert(self.cloud, project, zone, body, query.get("requestId", ""))
                )
            case "GET", "zones", zone, "instances":
                found = [m for m in every(self.cloud.machines.values()) if m.zone == zone]
                return _page(self._views(found, query), query)
            case "GET", "zones", zone, "instances", name:
                return machine_view(self._machine(project, zone, name), self._url())
            case "GET", "zones", zone, "instances", name, "serialPort":
                return {"contents": self._machine(project, zone, name).console, "next": "0"}
            case "POST", "zones", zone, "instances", name, ("start" | "stop") as verb:
                operation = self.cloud.switch(self._machine(project, zone, name), verb)
                return operation_view(operation, self._url())
            case "DELETE", "zones", zone, "instances", name:
                return self._deleted(project, self._machine(project, zone, name))
            case "POST", "global", "images":
                return self._image(project, body)
            case "GET", "global", "images", name:
                if name not in self.cloud.images:
                    raise _not_found(f"projects/{project}/global/images/{name}")
                return self.cloud.images[name]
            case "DELETE", "global", "images", name:
                if self.cloud.images.pop(name, None) is None:
                    raise _not_found(f"projects/{project}/global/images/{name}")
                return self._done(project, "delete", name)
            case "GET", "aggregated", "instances":
                return self._aggregated(query)
            case "GET", "regions", region:
                quotas = [
                    {"metric": k, "limit": v, "usage": self.cloud.used.get(k, 0)}
                    for k, v in self.cloud.quotas.items()
                ]
                return {"name": region, "quotas": quotas}
            case "GET", "regions", region, "resourcePolicies", name:
                if (region, name) not in self.cloud.policies:
                    raise _not_found(f"projects/{project}/regions/{region}/resourcePolicies/{name}")
                return self.cloud.policies[region, name]
            case "POST", "regions", region, "resourcePolicies":
                return self._policy(project, region, body)
        raise _not_found("/".join(parts))

    def _drops(self) -> bool:
        with self.cloud.lock:
            dropping = self.cloud.faults.dropped > 0
            self.cloud.faults.dropped -= dropping
            return dropping

    def _launched(self, operation: Operation) -> Any:
        faults = self.cloud.faults
        if faults.lost_replies > 0:
            faults.lost_replies -= 1
            raise _Hung
        return operation_view(operation, self._url())

    def _operation(self, name: str) -> Any:
        operation = self.cloud.operations.get(name)
        if operation is None:
            raise _not_found(name)
        self.cloud.poll(operation)
        return operation_view(operation, self._url())

    def _operations(self, zone: str, query: dict[str, str]) -> list[Any]:
        found = []
        for operation in self.cloud.operations.values():
            if operation.zone == zone and operation.request_id:
                self.cloud.poll(operation)
                found.append(operation_view(operation, self._url()))
        return _filtered(found, query)

    def _machine(self, project: str, zone: str, name: str) -> Machine:
        machine = self.cloud.machines.get((zone, name))
        if machine is None:
            raise _not_found(f"projects/{project}/zones/{zone}/instances/{name}")
        return machine

    def _deleted(self, project: str, machine: Machine) -> Any:
        self.cloud.remove(machine)
        for operation in self.cloud.operations.values():
            if not operation.done and machine in operation.machines:
                gone = f"The resource '{machine.name}' was deleted while it was being created."
                self.cloud.fail(operation, Fault(code="RESOURCE_NOT_FOUND", message=gone))
        operation = self.cloud.operation(project, machine.zone, "delete", machine.name)
        operation.done = True
        if self.cloud.faults.lost_terminates > 0:
            self.cloud.faults.lost_terminates -= 1
            raise _Hung
        return operation_view(operation, self._url())

    def _views(self, machines: list[Machine], query: dict[str, str]) -> list[Any]:
        oldest_hidden = time.time() - self.cloud.faults.hide_young_s
        seen = [machine_view(m, self._url()) for m in machines if m.made_at <= oldest_hidden]
        return _filtered(seen, query)

    def _aggregated(self, query: dict[str, str]) -> Any:
        unreachable = self.cloud.faults.unreachable
        reachable = [m for m in every(self.cloud.machines.values()) if m.zone not in unreachable]
        page = _page(self._views(reachable, query), query)
        items: dict[str, Any] = {}
        for zone in catalogue.ZONES:
            here = [view for view in page["items"] if view["zone"].endswith(f"/zones/{zone}")]
            if zone in unreachable:
                items[f"zones/{zone}"] = {
                    "warning": {
                        "code": "UNREACHABLE",
                        "message": f"The zone {zone} is unreachable.",
                    }
                }
            elif here:
                items[f"zones/{zone}"] = {"instances": here}
            else:
                none = {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope."}
                items[f"zones/{zone}"] = {"warning": none}
        page["items"] = items
        if unreachable:
            page["unreachables"] = [f"zones/{zone}" for zone in sorted(unreachable)]
        return page

    def _policy(self, project: str, region: str, body: Any) -> Any:
        if (region, body["name"]) in self.cloud.policies:
            where = f"projects/{project}/regions/{region}/resourcePolicies/{body['name']}"
            raise Refused(409, "alreadyExists", f"The resource '{where}' already exists")
        self.cloud.policies[region, body["name"]] = body
        operation = self.cloud.operation(project, region, "insert", body["name"])
        operation.done = True
        return operation_view(operation, self._url())

    def _image(self, project: str, body: Any) -> Any:
        name, disk = body["name"], body["sourceDisk"]
        if name in self.cloud.images:
            where = f"projects/{project}/global/images/{name}"
            raise Refused(409, "alreadyExists", f"The resource '{where}' already exists")
        machine = next((x for x in self.cloud.machines.values() if disk.endswith(x.name)), None)
        if machine is None:
            raise _not_found(disk)
        if machine.status == "RUNNING":
            message = f"The disk resource '{disk}' is already being used by '{machine.name}'"
            raise Refused(400, "resourceInUseByAnotherResource", message)
        self.cloud.images[name] = {**body, "status": self.cloud.images_are}
        if self.cloud.faults.lost_images > 0:
            self.cloud.faults.lost_images -= 1
            raise _Hung
        return self._done(project, "insert", name)

    def _done(self, project: str, kind: str, target: str) -> Any:
        operation = self.cloud.operation(project, "global", kind, target)
        operation.done = True
        return operation_view(operation, self._url())

    def _url(self) -> str:
        return f"http://{self.headers['Host']}/compute/v1"

    def _send(self, status: int, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _action(method: str, parts: list[str]) -> str:
    """What faults call it."""
    if method == "POST" and parts[-1] in ("start", "stop"):
        return parts[-1]
    if method == "POST" and "instances" in parts:
        return "launch"
    if method == "DELETE":
        return "terminate"
    if "operations" in parts:
        return "operation"
    if "instances" in parts:
        return "list"
    return "facts"


def _collection(parts: list[str]) -> str:
    """`zones/us-east1-b/instances/name/serialPort` -> `instances.serialPort`."""
    if parts[0] == "aggregated":
        return ".".join(parts)
    below = parts[2:] if len(parts) > 2 else parts
    verbs = {"start", "stop", "bulkInsert", "serialPort"}
    return ".".join(part for i, part in enumerate(below) if i == 0 or part in verbs)


def _filtered(items: list[Any], query: dict[str, str]) -> list[Any]:
    wanted = _FILTER.findall(query.get("filter", ""))
    return [item for item in items if all(_value(item, key) == value for key, value in wanted)]


def _value(item: Any, path: str) -> Any:
    for key in path.split("."):
        item = item.get(key) if isinstance(item, dict) else None
    return item


def _page(items: list[Any], query: dict[str, str]) -> dict[str, Any]:
    size, start = min(500, int(query.get("maxResults", 500))), int(query.get("pageToken") or 0)
    page: dict[str, Any] = {"items": items[start : start + size]}
    if start + size < len(items):
        page["nextPageToken"] = str(start + size)
    return page


def _zone(zone: str) -> str:
    if zone not in catalogue.ZONES:
        raise Refused(400, "invalid", f"Invalid value for field 'zone': '{zone}'. Unknown zone.")
    return zone


def _one(items: list[Any], project: str, zone: str, collection: str, name: str) -> Any:
    for item in items:
        if item["name"] == name:
            return item
    raise _not_found(f"projects/{project}/zones/{zone}/{collection}/{name}")


def _not_found(what: str) -> Refused:
    return Refused(404, "notFound", f"The resource '{what}' was not found")


def _error(fault: Fault) -> Any:
    each = {"reason": fault.code, "message": fault.message, "domain": "global"}
    error = {"code": fault.status, "message": fault.message, "errors": [each]}
    if fault.details:
        error["details"] = list(fault.details)
    return {"error": error}
