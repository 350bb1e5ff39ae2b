"""The machines of a cluster on Google Cloud, by its label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.gcp_plan import machine_label
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
        self._label = machine_label(cluster_id)
        self._client = client or self._google.instances()

    def listed(self) -> list[str]:
        key, value = self._label
        request = self._google.compute.AggregatedListInstancesRequest(
            project=self._project, filter=f"labels.{key}={value}"
        )
        with self._google.doing("list the machines of pools"):
            pages = self._client.aggregated_list(request=request)
            return [f"{zone}/{one.name}" for zone, one in in_zones(pages, "instances")]

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
