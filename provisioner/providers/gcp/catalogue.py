"""What one project sells in one region, asked of Compute Engine: zones, machine types, GPUs, reservations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provisioner.providers.gcp.client import GceError, GcpClient
from provisioner.providers.gcp.names import last, region_of
from provisioner.sections.gcp import GcpMachine, GcpSection

log = logging.getLogger(__name__)

_NOT_SOLD = ("notFound", "invalid", "404", "400")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFacts:
    gpu: str = ""
    """As Google calls it, `nvidia-tesla-a100`; empty: the type brings none."""
    gpus: int = 0
    cpus: int = 0
    memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    name: str
    zone: str
    machine_type: str
    is_ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Of one instant."""

    zones: frozenset[str] = frozenset()
    """Of the region, that are up."""
    types: Mapping[tuple[str, str], TypeFacts] = field(default_factory=dict)
    """(machine type, zone) -> what it is; what a zone does not have is missing."""
    accelerators: frozenset[tuple[str, str]] = frozenset()
    """(GPU, zone)"""
    reservations: Mapping[str, CapacityReservation] = field(default_factory=dict)
    asked_at: float = 0.0
    limits: Mapping[str, float] = field(default_factory=dict)
    """Metric of the region -> its quota. Missing: not known."""
    used: Mapping[str, float] = field(default_factory=dict)
    """Metric -> how much of it was in use, by everybody in the project."""

    def sells(self, machine: GcpMachine, zone: str) -> bool:
        gpu, _ = machine.added
        return (machine.machine_type, zone) in self.types and (
            not gpu or (gpu, zone) in self.accelerators
        )


async def learn(
    client: GcpClient, region: str, wanted: Sequence[GcpSection], now: float
) -> Catalogue:
    """Ask for all that these pools may buy. Raises as `GcpClient.call`; things that do not exist are left out."""
    pages = await client.pages("Zones", "list")
    zones = {
        zone.name
        for page in pages
        for zone in page.items
        if region_of(zone.name) == region and zone.status != "DOWN"
    }
    machines = {
        (section.instance_type, zone)
        for section in wanted
        for zone in zones & set(section.all_zones or zones)
    }
    kinds = {(machine.machine_type, zone) for machine, zone in machines}
    added = {(gpu, zone) for machine, zone in machines if (gpu := machine.added[0])}
    types = await asyncio.gather(*(_type(client, *kind) for kind in sorted(kinds)))
    gpus = await asyncio.gather(*(_has_gpu(client, *each) for each in sorted(added)))
    quotas = await _quotas(client, region)
    return Catalogue(
        asked_at=now,
        limits={quota.metric: quota.limit for quota in quotas},
        used={quota.metric: quota.usage for quota in quotas},
        zones=frozenset(zones),
        types={k: facts for k, facts in zip(sorted(kinds), types, strict=True) if facts},
        accelerators=frozenset(k for k, has in zip(sorted(added), gpus, strict=True) if has),
        reservations=await _reservations(client, zones, wanted),
    )


async def _quotas(client: GcpClient, region: str) -> Sequence[Any]:
    """Launches need none of them: what cannot be read is unknown."""
    try:
        found = await client.call("Regions", "get", region=region)
    except (GceError, OSError) as error:
        log.info("quotas of %s are not known: %s", region, error)
        return ()
    return tuple(found.quotas)


async def _type(client: GcpClient, name: str, zone: str) -> TypeFacts | None:
    found = await _one(client, "MachineTypes", zone=zone, machine_type=name)
    if found is None:
        return None
    brought = next(iter(found.accelerators), None)
    return TypeFacts(
        gpu=brought.guest_accelerator_type if brought else "",
        gpus=sum(each.guest_accelerator_count for each in found.accelerators),
        cpus=found.guest_cpus,
        memory_mib=found.memory_mb,
    )


async def _has_gpu(client: GcpClient, name: str, zone: str) -> bool:
    found = await _one(client, "AcceleratorTypes", zone=zone, accelerator_type=name)
    return found is not None


async def _one(client: GcpClient, service: str, **request: str) -> Any:
    try:
        return await client.call(service, "get", **request)
    except GceError as error:
        if error.code in _NOT_SOLD:
            return None
        raise


async def _reservations(
    client: GcpClient, zones: set[str], wanted: Sequence[GcpSection]
) -> dict[str, CapacityReservation]:
    names = {name for section in wanted for name in section.reservations}
    if not names:
        return {}
    found: dict[str, CapacityReservation] = {}
    for zone in sorted(zones):
        for page in await client.pages("Reservations", "list", zone=zone):
            for item in page.items:
                if item.name in names:
                    properties = item.specific_reservation.instance_properties
                    found[item.name] = CapacityReservation(
                        name=item.name,
                        zone=last(item.zone) or zone,
                        machine_type=properties.machine_type,
                        is_ready=item.status in ("", "READY"),
                    )
    return found
