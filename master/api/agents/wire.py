"""Agents, their slots and what runs on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from master.allocations.machine import AllocationState
from master.api.agents.replies import Agent, Container, Device, Slot, SlotCounts, SlotStats
from master.api.enums import ContainerState, DeviceType
from master.api.values import time
from rm_backends.views import AgentView, SlotView

_DEVICE_TYPES: Mapping[str, DeviceType] = {
    "cuda": DeviceType.CUDA,
    "rocm": DeviceType.ROCM,
    "cpu": DeviceType.CPU,
    "artificial": DeviceType.CPU,
}


def agent(
    view: AgentView,
    states: Mapping[str, ContainerState],
    *,
    with_slots: bool = True,
    with_containers: bool = True,
) -> Agent:
    """`states` as `container_states` tells them."""
    slots = sorted(view.slots, key=lambda slot: slot.id)
    return {
        "id": view.id,
        "registeredTime": time(view.registered),
        "addresses": [view.address] if view.address else [],
        "resourcePools": [view.pool],
        "enabled": view.enabled and view.connected,
        "draining": view.draining,
        "version": view.version,
        "labels": list(view.labels),
        "slots": {str(s.id): slot(s, states) for s in slots} if with_slots else {},
        "containers": {
            id_: _container(id_, allocation_id, states)
            for id_, allocation_id in sorted(view.containers.items())
        }
        if with_containers
        else {},
        "slotStats": _slot_stats(view),
        "connected": view.connected,
        "instanceId": view.instance_id,
        "notes": list(view.notes),
        "leavesAt": time(view.leaves_at) if view.leaves_at else None,
        "isolation": view.isolation.value,
        "containerRuntime": view.container_runtime,
        "oneUser": view.one_user,
    }


def device(view: SlotView) -> Device:
    return {
        "id": view.id,
        "brand": view.brand,
        "uuid": view.uuid,
        "type": device_type(view.kind),
    }


def device_type(kind: str) -> DeviceType:
    """Of a kind of slots; empty: of none."""
    return _DEVICE_TYPES.get(kind, DeviceType.UNSPECIFIED)


def container_states(allocations: Iterable[AllocationState]) -> dict[str, ContainerState]:
    """Container id -> how far it is. Looked up once for all agents and slots of a reply: there may be many."""
    return {
        c.container.container_id: ContainerState[c.phase]
        for allocation in allocations
        for c in allocation.containers
    }


def slot(view: SlotView, states: Mapping[str, ContainerState]) -> Slot:
    """`states` as `container_states` tells them."""
    container = None
    if view.container_id is not None:
        container = _container(view.container_id, view.allocation_id or "", states)
    return {
        "id": str(view.id),
        "device": device(view),
        "enabled": view.enabled,
        "draining": view.draining,
        "container": container,
    }


def _container(id_: str, allocation_id: str, states: Mapping[str, ContainerState]) -> Container:
    return {
        "id": id_,
        "parent": allocation_id,
        "state": states.get(id_, ContainerState.ASSIGNED),
        "devices": [],
        "permissionDenied": False,
    }


def _slot_stats(view: AgentView) -> SlotStats:
    types: dict[str, SlotCounts] = {}
    brands: dict[str, SlotCounts] = {}
    for slot in view.slots:
        for name, stats in ((device(slot)["type"], types), (slot.brand, brands)):
            entry = stats.setdefault(name, {"states": {}, "total": 0, "draining": 0, "disabled": 0})
            entry["total"] += 1
            entry["draining"] += slot.draining
            entry["disabled"] += not slot.enabled
    return {"typeStats": types, "brandStats": brands}


HIDDEN = "********"


def without_details(shown: Agent, hidden: Collection[str] = ()) -> Agent:
    """What is shown to those who may not know which machine it is: what there is, and what of it is free.

    `hidden`: pools that are not there for them.
    """
    slots = [shown["slots"][id_] for id_ in shown["slots"]]
    return {
        **shown,
        "id": HIDDEN,
        "resourcePools": [HIDDEN if pool in hidden else pool for pool in shown["resourcePools"]],
        "addresses": [HIDDEN for _ in shown["addresses"]],
        "instanceId": HIDDEN if shown["instanceId"] else shown["instanceId"],
        "notes": [],
        "slots": {
            str(number): slot_without_details(one, number) for number, one in enumerate(slots)
        },
        "containers": {
            str(number): _hidden_container(one)
            for number, one in enumerate(shown["containers"].values())
        },
    }


def slot_without_details(shown: Slot, number: int = 0) -> Slot:
    container = shown["container"]
    return {
        **shown,
        "id": str(number),
        "device": {**shown["device"], "id": -1, "uuid": HIDDEN},
        "container": None if container is None else _hidden_container(container),
    }


def _hidden_container(shown: Container) -> Container:
    return {
        "id": HIDDEN,
        "parent": HIDDEN,
        "state": shown["state"],
        "devices": [],
        "permissionDenied": True,
    }
