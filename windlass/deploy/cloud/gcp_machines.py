"""The machines of a cluster on Google Cloud, by its label. Needs google-cloud-compute, of the extra `gcp`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.gcp_plan import machine_label
from windlass.deploy.cloud.machines import missing

_COMPLETE = ("", "NO_RESULTS_ON_PAGE")
"""Any other warning means that not all of a zone is in the list."""


class GcpMachines:
    """Ids are ZONE/NAME. `client`: an `InstancesClient`, for tests."""

    def __init__(
        self, cluster_id: str, *, project: str, keypath: Path | None = None, client: Any = None
    ) -> None:
        try:
            from google.api_core import exceptions
            from google.auth import exceptions as logins
            from google.cloud import compute_v1
        except ImportError:
            raise missing("gcp") from None
        self._project = project
        self._label = machine_label(cluster_id)
        self._gone: type[Exception] = exceptions.NotFound
        self._errors: tuple[type[Exception], ...] = (
            exceptions.GoogleAPIError,
            logins.GoogleAuthError,
            OSError,
            ValueError,
        )
        self._request = compute_v1.AggregatedListInstancesRequest
        if client is not None:
            self._client = client
            return
        made = compute_v1.InstancesClient
        try:
            self._client = made.from_service_account_file(str(keypath)) if keypath else made()
        except self._errors as error:
            raise _failure("look for machines", error) from None

    def listed(self) -> list[str]:
        key, value = self._label
        request = self._request(project=self._project, filter=f"labels.{key}={value}")
        ids = []
        try:
            for zone, found in self._client.aggregated_list(request=request):
                if found.warning.code not in _COMPLETE:
                    raise ProviderError(
                        f"Cannot list the machines of pools in {zone}: {found.warning.message}"
                    )
                ids += [f"{zone.removeprefix('zones/')}/{one.name}" for one in found.instances]
            return ids
        except self._errors as error:
            raise _failure("list the machines of pools", error) from None

    def end(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            zone, _, name = id_.partition("/")
            try:
                self._client.delete(project=self._project, zone=zone, instance=name)
            except self._gone:
                continue
            except self._errors as error:
                raise _failure(f"end {id_}", error) from None


def _failure(doing: str, error: Exception) -> ProviderError:
    return ProviderError(f"Cannot {doing}: {' '.join(str(error).split())}")
