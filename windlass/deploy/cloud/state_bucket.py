"""A bucket with the states of clusters, and beside each what it was made with, so that any machine may go on.

windlass/CLOUD/CLUSTER/...           Terraform's state and its lock
windlass/CLOUD/CLUSTER/cluster.json  `Record` and variables; no secret, and no digest of one
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from windlass.base.errors import Conflict
from windlass.base.formats.json_types import JsonMapping, JsonObject
from windlass.deploy.cloud.state_folder import DeployPhase, Record

LABELS = {"managed-by": "determined", "windlass": "terraform-states"}
"""Of a bucket that we made."""


class StateBucket(Protocol):
    """Raises ProviderError where it cannot be used."""

    @property
    def name(self) -> str: ...

    def exists(self) -> bool: ...

    def make(self) -> None:
        """Private, versioned, encrypted, labelled. Where it exists half made: goes on."""
        ...

    def backend(self, folder: str) -> Mapping[str, Any]:
        """Terraform's backend for a state in that folder: its kind, and its arguments."""
        ...

    def read(self, key: str) -> bytes | None: ...

    def write(self, key: str, data: bytes) -> None: ...

    def remove(self, prefix: str) -> None:
        """Everything whose key begins so."""
        ...

    def keys(self, prefix: str) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class SharedRecords:
    """The clusters whose states are in one bucket."""

    bucket: StateBucket
    cloud: str

    def folder(self, cluster_id: str) -> str:
        return f"windlass/{self.cloud}/{cluster_id}"

    def write(self, cluster_id: str, record: Record, variables: JsonMapping) -> None:
        shown = {name: value for name, value in asdict(record).items() if name != "secrets_digests"}
        text = json.dumps({"record": shown, "variables": variables}, indent=2)
        self.bucket.write(self._key(cluster_id), text.encode())

    def read(self, cluster_id: str) -> tuple[Record, JsonObject] | None:
        data = self.bucket.read(self._key(cluster_id))
        if data is None:
            return None
        try:
            document = json.loads(data)
            record = document["record"]
            return Record(**{**record, "phase": DeployPhase(record["phase"])}), document[
                "variables"
            ]
        except (ValueError, TypeError, KeyError):
            raise Conflict(
                f"{self._key(cluster_id)} in bucket {self.bucket.name} is damaged: restore its last version"
            ) from None

    def remove(self, cluster_id: str) -> None:
        self.bucket.remove(f"{self.folder(cluster_id)}/")

    def clusters(self) -> list[str]:
        prefix = f"windlass/{self.cloud}/"
        keys = self.bucket.keys(prefix)
        ours = (key.removeprefix(prefix).split("/") for key in keys)
        return sorted(parts[0] for parts in ours if parts[1:] == ["cluster.json"])

    def _key(self, cluster_id: str) -> str:
        return f"{self.folder(cluster_id)}/cluster.json"
