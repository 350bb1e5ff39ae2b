"""Machines as Compute Engine lists them. Pure, but for the vendor's messages, which are read as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from provisioner.providers.base import Accepted, FoundGroup, FoundInstance, FoundState
from provisioner.providers.gcp import labels
from provisioner.providers.gcp.handles import LOOK_AGAIN_S, LaunchHandle
from provisioner.providers.gcp.names import kind_name, last, region_of
from provisioner.providers.images import is_bake
from provisioner.types import OfferKey

WAITING = ("PENDING", "PROVISIONING")
"""Not there yet, and not billed: Google looks for capacity."""
_EMPTY = "NO_RESULTS_ON_PAGE"
"""The usual warning of a zone without machines."""
STOPPED = ("TERMINATED", "STOPPED", "SUSPENDED")
"""Not running any more, but its disk is billed until it is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GceMachine:
    """What of a listed machine is used."""

    name: str
    zone: str
    status: str
    labels: dict[str, str]
    key: OfferKey
    made_at: float
    started_at: float | None
    leaves_at: float | None
    is_spot: bool
    was_stopped: bool = False
    """It was there before: it is being started."""

    @property
    def is_waiting(self) -> bool:
        return self.status in WAITING and not self.was_stopped

    @property
    def is_over(self) -> bool:
        """It stopped, and that is its end, but for a machine that becomes an image."""
        return self.status in STOPPED and not is_bake(labels.value_of(self.labels, labels.INTENT))


class MachinePage(NamedTuple):
    """A part of a list."""

    machines: Sequence[GceMachine]
    found: Sequence[FoundInstance]
    """Those of the machines that do not wait."""
    unseen: Mapping[str, str]
    """Zone -> why its machines are not in it."""


def page_of(page: Any) -> MachinePage:
    """`page`: an InstanceAggregatedList of the vendor's."""
    unseen = {last(zone): "it is unreachable" for zone in page.unreachables}
    machines: list[GceMachine] = []
    for scope, part in page.items.items():
        machines += [machine_of(item) for item in part.instances]
        if part.warning.code not in ("", _EMPTY):
            unseen[last(scope)] = part.warning.message or part.warning.code
    return MachinePage(machines, [found_of(m) for m in machines if not m.is_waiting], unseen)


def machine_of(item: Any) -> GceMachine:
    """`item`: an Instance of the vendor's."""
    named = dict(item.labels)
    zone = last(item.zone)
    gpu = next(iter(item.guest_accelerators), None)
    kind = kind_name(
        last(item.machine_type),
        last(gpu.accelerator_type) if gpu else "",
        gpu.accelerator_count if gpu else 0,
    )
    made_at = labels.number_of(named, labels.CREATED_AT) or 0.0
    key = OfferKey(
        provider=labels.value_of(named, labels.PROVIDER),
        region=region_of(zone),
        zone=zone,
        instance_type=kind,
        market=labels.market_of(named),
        reservation=labels.value_of(named, labels.RESERVATION),
        placement=labels.value_of(named, labels.PLACEMENT),
    )
    return GceMachine(
        name=item.name,
        zone=zone,
        status=item.status,
        labels=named,
        key=key,
        made_at=made_at or _timestamp(item.creation_timestamp) or 0.0,
        started_at=_timestamp(item.last_start_timestamp),
        leaves_at=_timestamp(item.resource_status.upcoming_maintenance.window_start_time),
        is_spot=item.scheduling.provisioning_model == "SPOT",
        was_stopped=bool(item.last_stop_timestamp),
    )


def found_of(machine: GceMachine) -> FoundInstance:
    named = machine.labels
    slots = labels.number_of(named, labels.SLOTS)
    return FoundInstance(
        instance_id=machine.name,
        state=_state_of(machine),
        cluster_id=labels.value_of(named, labels.CLUSTER),
        pool=labels.value_of(named, labels.POOL),
        intent_id=labels.value_of(named, labels.INTENT),
        generation=int(labels.number_of(named, labels.GENERATION) or 0),
        created_at=machine.made_at,
        offer_key=machine.key,
        slots=None if slots is None else int(slots),
        usd_per_hour=labels.number_of(named, labels.USD_PER_HOUR),
        started_at=machine.started_at,
        leaves_at=None if machine.is_over else machine.leaves_at,
        leaves_because="" if machine.leaves_at is None else "Google maintains its host",
        detail=_why_ended(machine) if machine.is_over else "",
    )


def _state_of(machine: GceMachine) -> FoundState:
    if machine.is_over:
        return FoundState.ENDED
    if machine.status in STOPPED:
        return FoundState.STOPPED
    return FoundState.PENDING if machine.status in WAITING else FoundState.RUNNING


def with_last_words(found: FoundInstance, console: str) -> FoundInstance:
    return replace(found, detail=f"{found.detail}: {console}") if console else found


def groups_of(machines: Iterable[GceMachine]) -> Sequence[FoundGroup]:
    """Launches of which some machine is not there yet."""
    by_handle: dict[str, GceMachine] = {}
    for machine in machines:
        if machine.is_waiting:
            by_handle.setdefault(_handle(machine).text, machine)
    return [
        FoundGroup(
            cluster_id=labels.value_of(first.labels, labels.CLUSTER),
            pool=labels.value_of(first.labels, labels.POOL),
            intent_id=labels.value_of(first.labels, labels.INTENT),
            generation=int(labels.number_of(first.labels, labels.GENERATION) or 0),
            created_at=first.made_at,
            offer_key=first.key,
            count=_handle(first).count,
            accepted=Accepted(handle=text, look_again_s=LOOK_AGAIN_S, reason=first.status.lower()),
        )
        for text, first in by_handle.items()
    ]


def _handle(machine: GceMachine) -> LaunchHandle:
    return LaunchHandle(
        base=machine.name.rpartition("-")[0],
        count=int(labels.number_of(machine.labels, labels.COUNT) or 1),
        key=machine.key,
    )


def _why_ended(machine: GceMachine) -> str:
    if machine.is_spot:
        return "Google took it back"
    return f"it was stopped ({machine.status.lower()}), by itself or by somebody"


def _timestamp(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
