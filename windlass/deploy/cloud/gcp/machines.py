"""The machines of a cluster on Google Cloud, and the clusters of a project, by their labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.gcp.plan import CLUSTER_LABEL, machine_label
from windlass.deploy.cloud.gcp.session import GcpSession
from windlass.deploy.cloud.listing import Tagged

_COMPLETE = ("", "NO_RESULTS_ON_PAGE")
"""Any other warning means that not all of a zone is in the list."""


class GcpMachines:
    """Ids are ZONE/NAME. `client`: an `InstancesClient`, for tests."""

    def __init__(
        self, cluster_id: str, *, project: str, keypath: Path | None = None, client: Any = None
    ) -> None:
        self._google = GcpSession(keypath=keypath)
        self._project = project
        self._cluster_id = cluster_id
        self._client = client or self._google.instances()

    def masters(self) -> list[str]:
        with self._google.doing("list masters"):
            return [
                _address_of(one)
                for _, one in self._instances((CLUSTER_LABEL, self._cluster_id))
                if not _is_of_pool(one, self._cluster_id)
            ]

    def listed(self) -> list[str]:
        with self._google.doing("list the machines of pools"):
            found = self._instances(machine_label(self._cluster_id))
            return [f"{zone}/{one.name}" for zone, one in found]

    def _instances(self, label: tuple[str, str]) -> Iterator[tuple[str, Any]]:
        request = self._google.compute.AggregatedListInstancesRequest(
            project=self._project, filter=f"labels.{label[0]}={label[1]}"
        )
        return _in_zones(self._client.aggregated_list(request=request), "instances")

    def end(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            zone, _, name = id_.partition("/")
            with self._google.doing(f"end {id_}"):
                try:
                    self._client.delete(project=self._project, zone=zone, instance=name)
                except self._google.gone:
                    continue


def gcp_tagged(
    *, project: str, keypath: Path | None = None, instances: Any = None, disks: Any = None
) -> list[Tagged]:
    """Raises ProviderError. Of a cluster that is down the master's disk is left. The clients: for tests."""
    google = GcpSession(keypath=keypath)
    compute, wanted = google.compute, f"labels.{CLUSTER_LABEL}:*"
    found: dict[tuple[str, str], Tagged] = {}

    def of(zone: str, thing: Any) -> Tagged:
        name, region = thing.labels[CLUSTER_LABEL], zone.rpartition("-")[0]
        return found.get((name, region), Tagged(cluster_id=name, region=region))

    def note(one: Tagged) -> None:
        found[(one.cluster_id, one.region)] = one

    with google.doing(f"list clusters in project {project}"):
        asked = compute.AggregatedListDisksRequest(project=project, filter=wanted)
        pages = (disks or google.disks()).aggregated_list(request=asked)
        for zone, disk in _in_zones(pages, "disks"):
            note(of(zone, disk))
        asked = compute.AggregatedListInstancesRequest(project=project, filter=wanted)
        pages = (instances or google.instances()).aggregated_list(request=asked)
        for zone, machine in _in_zones(pages, "instances"):
            one = of(zone, machine)
            if _is_of_pool(machine, one.cluster_id):
                note(replace(one, machines=one.machines + 1))
            else:
                note(replace(one, master=_address_of(machine)))
    return list(found.values())


def _in_zones(pages: Any, kind: str) -> Iterator[tuple[str, Any]]:
    """Zone and thing of an aggregated list. Raises ProviderError where a zone is not whole."""
    for zone, found in pages:
        if found.warning.code not in _COMPLETE:
            raise ProviderError(f"Cannot list {kind} in {zone}: {found.warning.message}")
        for one in getattr(found, kind):
            yield zone.removeprefix("zones/"), one


def _is_of_pool(machine: Any, cluster_id: str) -> bool:
    """Of the machines with the cluster's label the other one is the master."""
    key, value = machine_label(cluster_id)
    return bool(machine.labels.get(key) == value)


def _address_of(machine: Any) -> str:
    for interface in machine.network_interfaces:
        for access in interface.access_configs:
            if access.nat_i_p:
                return str(access.nat_i_p)
        return str(interface.network_i_p)
    return ""
