"""Boots the machines of the fake."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.gce.cloud import Cloud
from tests.fakes.gce.metadata import GceMetadata
from tests.fakes.watched_machines import AgentMachines


class GceMachines(AgentMachines):
    def __init__(
        self,
        cloud: Cloud,
        folder: Path,
        master_url: str,
        *,
        slots: int,
        metadata: GceMetadata | None = None,
    ) -> None:
        super().__init__(folder, master_url, slots)
        self._cloud = cloud
        self.metadata = metadata

    def ever(self) -> set[str]:
        """The name of every machine that ever was."""
        with self._cloud.lock:
            return {m.name for m in (*self._cloud.machines.values(), *self._cloud.gone)}

    def living(self) -> set[str]:
        return self._in_state("PROVISIONING", "RUNNING")

    def _in_state(self, *states: str) -> set[str]:
        with self._cloud.lock:
            return {m.name for m in self._cloud.machines.values() if m.status in states}

    def _running(self) -> set[str]:
        return self._in_state("RUNNING")

    def _user_data(self, machine: str) -> str:
        with self._cloud.lock:
            return next(m.user_data for m in self._cloud.machines.values() if m.name == machine)

    def _metadata_settings(self, machine: str) -> dict[str, str]:
        if self.metadata is None:
            return {}
        return {"metadata_service": self.metadata.url(machine), "cloud": "gcp"}
