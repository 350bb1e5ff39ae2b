"""The machines of a cluster on Google Cloud, by its label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.gcp_plan import CLUSTER_LABEL, machine_label
from windlass.deploy.cloud.gcp_session import GcpSession

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
                address_of(one)
                for _, one in self._instances((CLUSTER_LABEL, self._cluster_id))
                if not is_of_pool(one, self._cluster_id)
            ]

    def listed(self) -> list[str]:
        with self._google.doing("list the machines of pools"):
            found = self._instances(machine_label(self._cluster_id))
            return [f"{zone}/{one.name}" for zone, one in found]

    def _instances(self, label: tuple[str, str]) -> Iterator[tuple[str, Any]]:
        request = self._google.compute.AggregatedListInstancesRequest(
            project=self._project, filter=f"labels.{label[0]}={label[1]}"
        )
        return in_zones(self._client.aggregated_list(request=request), "instances")

    def end(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            zone, _, name = id_.partition("/")
            with self._google.doing(f"end {id_}"):
                try:
                    self._client.delete(project=self._project, zone=zone, instance=name)
                except self._google.gone:
                    continue


def in_zones(pages: Any, kind: str) -> Iterator[tuple[str, Any]]:
    """Zone and thing of an aggregated list. Raises ProviderError where a zone is not whole."""
    for zone, found in pages:
        if found.warning.code not in _COMPLETE:
            raise ProviderError(f"Cannot list {kind} in {zone}: {found.warning.message}")
        for one in getattr(found, kind):
            yield zone.removeprefix("zones/"), one


def is_of_pool(machine: Any, cluster_id: str) -> bool:
    """Of the machines with the cluster's label the other one is the master."""
    key, value = machine_label(cluster_id)
    return bool(machine.labels.get(key) == value)


def address_of(machine: Any) -> str:
    for interface in machine.network_interfaces:
        for access in interface.access_configs:
            if access.nat_i_p:
                return str(access.nat_i_p)
        return str(interface.network_i_p)
    return ""
