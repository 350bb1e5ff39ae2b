"""The machines and operations of the fake, and what happens to them without a call."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.fakes.gce.faults import Fault, Faults, Which


@dataclass(slots=True, kw_only=True)
class Operation:
    name: str
    id: int
    project: str
    zone: str
    kind: str
    target: str
    request_id: str = ""
    group: str = ""
    fault: Fault | None = None
    done: bool = False
    which: Which | None = None
    """For launches: of what."""
    machines: list[Machine] = field(default_factory=list)
    created: int | None = None
    """For bulkInsert: how many machines it made."""
    cancelled: bool = False


@dataclass(slots=True, kw_only=True)
class Machine:
    project: str
    zone: str
    name: str
    id: int
    body: dict[str, Any]
    made_at: float
    status: str = "PROVISIONING"
    console: str = ""
    maintenance_at: float | None = None
    ended_at: float | None = None
    stopped_at: float | None = None

    @property
    def which(self) -> Which:
        return which_of(self.body, self.zone)

    @property
    def metadata(self) -> dict[str, str]:
        items = self.body.get("metadata", {}).get("items", ())
        return {item["key"]: item.get("value", "") for item in items}

    @property
    def user_data(self) -> str:
        return self.metadata.get("startup-script", "")


class Cloud:
    """Changes under `lock` only."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.faults = Faults()
        self.machines: dict[tuple[str, str], Machine] = {}
        """(zone, name) -> what exists, stopped machines too."""
        self.gone: list[Machine] = []
        self.operations: dict[str, Operation] = {}
        self.requests: dict[tuple[str, str], tuple[str, str]] = {}
        """(path, requestId) -> (digest of the body, name of its operation)."""
        self.reservations: dict[str, list[dict[str, Any]]] = {}
        self.quotas: dict[str, float] = {}
        self.used: dict[str, float] = {}
        """Of those quotas."""
        """Of every region: metric -> limit."""
        self.policies: dict[tuple[str, str], dict[str, Any]] = {}
        self.skus: list[dict[str, Any]] = []
        """Of the billing catalogue."""
        self.billing_refuses = ""
        self.denied: set[str] | None = set()
        """Permissions that the caller does not have in the project; None: it cannot be asked."""
        self.images: dict[str, dict[str, Any]] = {}
        """Made by calls: name -> as it was asked for, with its status."""
        self.images_are = "READY"
        """Those that are made."""
        self.calls: list[str] = []
        """What was asked, in order, as `METHOD collection[.method]`."""
        self.heard: list[str] = []
        """The same, each whole: its path and, on a line of its own, its body."""
        self.permissions: set[str] = set()
        """What callers needed for all of that."""
        self.mended = threading.Event()
        self._next_id = 4_000_000_000_000_000_000

    def mend(self) -> None:
        with self.lock:
            self.faults = Faults()
            self.mended.set()
            self.mended = threading.Event()

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def operation(self, project: str, zone: str, kind: str, target: str, **more: Any) -> Operation:
        id_ = self.new_id()
        name = f"operation-{id_}"
        made = Operation(
            name=name, id=id_, project=project, zone=zone, kind=kind, target=target, **more
        )
        self.operations[name] = made
        return made

    def poll(self, operation: Operation) -> None:
        """Operations go on when somebody looks: held ones do not, and may be refused meanwhile."""
        if operation.done:
            return
        which = operation.which
        if which is not None:
            refusal = self.refusal_of(which)
            if refusal is not None:
                self.fail(operation, refusal)
                return
            if any(held.covers(which) for held in self.faults.held):
                return
        self.finish(operation)

    def finish(self, operation: Operation) -> None:
        operation.done = True
        for machine in operation.machines:
            if machine.ended_at is None:
                machine.status = "RUNNING"

    def fail(self, operation: Operation, fault: Fault) -> None:
        operation.done, operation.fault = True, fault
        for machine in operation.machines:
            self.remove(machine)

    def deliver(self) -> None:
        """What is held is made now."""
        with self.lock:
            self.faults.held.clear()
            for operation in self.operations.values():
                if not operation.done:
                    self.finish(operation)

    def refusal_of(self, which: Which) -> Fault | None:
        return next((f for key, f in self.faults.refused.items() if key.covers(which)), None)

    def take_stock(self, which: Which, count: int) -> bool:
        """Whether there are so many; if so, they are taken."""
        for key, left in self.faults.stock.items():
            if key.covers(which):
                if left < count:
                    return False
                self.faults.stock[key] = left - count
        return True

    def add(self, project: str, zone: str, name: str, body: dict[str, Any]) -> Machine:
        machine = Machine(
            project=project, zone=zone, name=name, id=self.new_id(), body=body, made_at=time.time()
        )
        self.machines[zone, name] = machine
        return machine

    def remove(self, machine: Machine) -> None:
        if self.machines.pop((machine.zone, machine.name), None) is not None:
            machine.ended_at = time.time()
            self.gone.append(machine)

    def named(self, name: str) -> Machine:
        with self.lock:
            return next(m for m in self.machines.values() if m.name == name)

    def preempt(self, name: str) -> None:
        """The vendor takes a machine back: deleted if it was asked for so, else stopped and still listed."""
        with self.lock:
            machine = self.named(name)
            action = machine.body.get("scheduling", {}).get("instanceTerminationAction", "STOP")
            operation = self.operation(
                machine.project, machine.zone, "compute.instances.preempted", machine.name
            )
            operation.done = True
            if action == "DELETE":
                self.remove(machine)
            else:
                machine.status = "TERMINATED"

    def stop(self, name: str) -> None:
        """The machine shut itself down: it stays, with its disk."""
        with self.lock:
            machine = self.named(name)
            machine.status, machine.stopped_at = "TERMINATED", time.time()

    def switch(self, machine: Machine, verb: str) -> Operation:
        """`stop` or `start`, by a call."""
        operation = self.operation(machine.project, machine.zone, verb, machine.name)
        if verb == "stop":
            self.stop(machine.name)
        elif machine.status == "TERMINATED":
            operation.fault = self.faults.no_starts
            machine.status = "TERMINATED" if operation.fault is not None else "RUNNING"
        operation.done = True
        return operation

    def living(self) -> Sequence[Machine]:
        with self.lock:
            return [m for m in self.machines.values() if m.status != "TERMINATED"]


def which_of(body: dict[str, Any], zone: str) -> Which:
    scheduling = body.get("scheduling", {})
    return Which(
        zone=zone,
        machine_type=last(body.get("machineType", "")),
        model=scheduling.get("provisioningModel", "STANDARD"),
    )


def last(url: str) -> str:
    return url.rsplit("/", 1)[-1]


def new_group() -> str:
    return uuid.uuid4().hex


def time_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def machine_view(machine: Machine, url: str) -> dict[str, Any]:
    here = f"{url}/projects/{machine.project}/zones/{machine.zone}"
    body = {k: v for k, v in machine.body.items() if k not in ("machineType", "guestAccelerators")}
    view: dict[str, Any] = {
        **body,
        "kind": "compute#instance",
        "id": str(machine.id),
        "name": machine.name,
        "zone": here,
        "status": machine.status,
        "machineType": f"{here}/machineTypes/{last(machine.body['machineType'])}",
        "creationTimestamp": time_of(machine.made_at),
        "selfLink": f"{here}/instances/{machine.name}",
        "guestAccelerators": [
            {
                "acceleratorType": f"{here}/acceleratorTypes/{last(each['acceleratorType'])}",
                "acceleratorCount": each["acceleratorCount"],
            }
            for each in machine.body.get("guestAccelerators", ())
        ],
    }
    view["disks"] = [
        {**disk, "source": f"{here}/disks/{machine.name}"} if disk.get("boot") else disk
        for disk in body.get("disks", ())
    ]
    if machine.stopped_at is not None:
        view["lastStopTimestamp"] = time_of(machine.stopped_at)
    if machine.status == "RUNNING":
        view["lastStartTimestamp"] = time_of(machine.made_at)
    if machine.maintenance_at is not None:
        view["resourceStatus"] = {
            "upcomingMaintenance": {
                "type": "SCHEDULED",
                "windowStartTime": time_of(machine.maintenance_at),
                "maintenanceStatus": "PENDING",
            }
        }
    return view


def operation_view(operation: Operation, url: str) -> dict[str, Any]:
    here = f"{url}/projects/{operation.project}/zones/{operation.zone}"
    view: dict[str, Any] = {
        "kind": "compute#operation",
        "id": str(operation.id),
        "name": operation.name,
        "operationType": operation.kind,
        "zone": here,
        "targetLink": operation.target,
        "selfLink": f"{here}/operations/{operation.name}",
        "status": "DONE" if operation.done else "RUNNING",
        "progress": 100 if operation.done else 0,
    }
    if operation.request_id:
        view["clientOperationId"] = operation.request_id
    if operation.group:
        view["operationGroupId"] = operation.group
    if operation.created is not None and operation.done:
        made = 0 if operation.fault else operation.created
        view["instancesBulkInsertOperationMetadata"] = {
            "perLocationStatus": {
                f"zones/{operation.zone}": {
                    "status": "DONE" if made else "FAILED",
                    "targetVmCount": operation.created,
                    "createdVmCount": made,
                }
            }
        }
    if operation.done and operation.fault is not None:
        view["error"] = {"errors": [error_view(operation.fault)]}
        view["httpErrorStatusCode"] = 503
        view["httpErrorMessage"] = "SERVICE UNAVAILABLE"
    return view


def error_view(fault: Fault) -> dict[str, Any]:
    view: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.details:
        view["errorDetails"] = list(fault.details)
    return view


def every(machines: Iterable[Machine]) -> list[Machine]:
    return sorted(machines, key=lambda machine: (machine.zone, machine.name))
