"""Boots the machines of `ec2_server`: an agent for each that runs, with the launch token of its user data."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.fakes.ec2_metadata import Ec2Metadata
from tests.fakes.ec2_server import Ec2Server
from tests.real_cluster import WINDLASS

EVERY_S = 0.2


class Ec2Machines:
    """A context manager: what it started ends with it. An agent ends when its machine does, and the other way round."""

    def __init__(
        self,
        server: Ec2Server,
        folder: Path,
        master_url: str,
        *,
        slots: int,
        metadata: Ec2Metadata | None = None,
    ) -> None:
        self._server = server
        self._folder = folder
        self._master_url = master_url
        self._slots = slots
        self.metadata = metadata
        self._client = server.client()
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.boots = threading.Event()
        """Unset: machines run, but nothing starts on them."""
        self.boots.set()

    def __enter__(self) -> Ec2Machines:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(30)
        for agent in self._agents.values():
            agent.kill()
            agent.wait()

    def all(self) -> dict[str, str]:
        """Every machine that ever was -> its state."""
        return {machine["InstanceId"]: machine["State"]["Name"] for machine in self._described()}

    def living(self) -> set[str]:
        return {id_ for id_, state in self.all().items() if state in ("pending", "running")}

    def _described(self) -> list[Any]:
        pages = self._client.get_paginator("describe_instances").paginate()
        return [x for page in pages for group in page["Reservations"] for x in group["Instances"]]

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            with suppress(OSError):
                for instance_id, state in self.all().items():
                    self._follow(instance_id, state)

    def _follow(self, instance_id: str, state: str) -> None:
        agent = self._agents.get(instance_id)
        if state == "terminated" and agent is not None and agent.poll() is None:
            agent.terminate()
            agent.wait()
        elif state == "running" and agent is None and self.boots.is_set():
            self._agents[instance_id] = self._boot(instance_id)

    def _boot(self, instance_id: str) -> subprocess.Popen[bytes]:
        home = self._folder / instance_id
        home.mkdir(parents=True)
        token = home / "token"
        token.touch(mode=0o600)
        token.write_text(self._launch_token(instance_id))
        config = home / "agent.yaml"
        said = {"instance_id": instance_id}
        if self.metadata is not None:
            said["metadata_service"] = self.metadata.url(instance_id)
        config.write_text(json.dumps(said))
        log = (home / "agent.log").open("wb")
        agent = subprocess.Popen(
            [
                *(WINDLASS, "agent", "run", "--master", self._master_url, "--pool", "compute"),
                *("--agent-id", instance_id, "--join-token-file", str(token)),
                *("--work-dir", str(home / "work"), "--artificial-slots", str(self._slots)),
                *("--config-file", str(config)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        return agent

    def _launch_token(self, instance_id: str) -> str:
        found = self._client.describe_instance_attribute(
            InstanceId=instance_id, Attribute="userData"
        )
        script = base64.b64decode(found["UserData"]["Value"]).decode("ascii")
        said = re.search(r"^TOKEN='?([^'\n]+)'?$", script, re.M)
        assert said is not None, script
        return said.group(1)
