"""Boots the machines of `ec2_server`."""

from __future__ import annotations

import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fakes.ec2_metadata import Ec2Metadata
from tests.fakes.ec2_server import Ec2Server
from tests.fakes.watched_machines import AgentMachines


class Ec2Machines(AgentMachines):
    def __init__(
        self,
        server: Ec2Server,
        folder: Path,
        master_url: str,
        *,
        slots: int,
        metadata: Ec2Metadata | None = None,
    ) -> None:
        super().__init__(folder, master_url, slots)
        self._client = server.client()
        self.metadata = metadata

    def all(self) -> dict[str, str]:
        """Every machine that ever was -> its state."""
        return {machine["InstanceId"]: machine["State"]["Name"] for machine in self._described()}

    def living(self) -> set[str]:
        return {id_ for id_, state in self.all().items() if state in ("pending", "running")}

    def _described(self) -> list[Any]:
        pages = self._client.get_paginator("describe_instances").paginate()
        return [x for page in pages for group in page["Reservations"] for x in group["Instances"]]

    def _look(self) -> None:
        with suppress(OSError):
            super()._look()

    def _running(self) -> set[str]:
        return {id_ for id_, state in self.all().items() if state == "running"}

    def _user_data(self, machine: str) -> str:
        found = self._client.describe_instance_attribute(InstanceId=machine, Attribute="userData")
        return base64.b64decode(found["UserData"]["Value"]).decode("ascii")

    def _metadata_settings(self, machine: str) -> dict[str, str]:
        if self.metadata is None:
            return {}
        return {"metadata_service": self.metadata.url(machine)}
