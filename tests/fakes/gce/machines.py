"""Boots the machines of the fake: an agent for each that runs, with the launch token of its user data."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path
from types import TracebackType

from tests.fakes.gce.cloud import Cloud, Machine
from tests.fakes.gce.metadata import GceMetadata
from tests.real_cluster import WINDLASS

EVERY_S = 0.2


class GceMachines:
    """A context manager: what it started ends with it. The agent of a machine ends when its machine does."""

    def __init__(
        self,
        cloud: Cloud,
        folder: Path,
        master_url: str,
        slots: int,
        *,
        metadata: GceMetadata | None = None,
    ) -> None:
        self._cloud = cloud
        self._folder = folder
        self._master_url = master_url
        self._slots = slots
        self.metadata = metadata
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.boots = threading.Event()
        """Unset: machines run, but nothing starts on them."""
        self.boots.set()

    def __enter__(self) -> GceMachines:
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

    def ever(self) -> set[str]:
        """The name of every machine that ever was."""
        with self._cloud.lock:
            return {m.name for m in (*self._cloud.machines.values(), *self._cloud.gone)}

    def living(self) -> set[str]:
        with self._cloud.lock:
            machines = self._cloud.machines.values()
            return {m.name for m in machines if m.status in ("PROVISIONING", "RUNNING")}

    def kill_agent(self, name: str) -> None:
        self._agents[name].kill()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            with self._cloud.lock:
                running = [m for m in self._cloud.machines.values() if m.status == "RUNNING"]
            names = {machine.name for machine in running}
            for name, agent in self._agents.items():
                if name not in names and agent.poll() is None:
                    agent.kill()
                    agent.wait()
            for machine in running:
                if machine.name not in self._agents and self.boots.is_set():
                    self._agents[machine.name] = self._boot(machine)

    def _boot(self, machine: Machine) -> subprocess.Popen[bytes]:
        home = self._folder / machine.name
        home.mkdir(parents=True)
        token = home / "token"
        token.touch(mode=0o600)
        token.write_text(launch_token(machine))
        config = home / "agent.yaml"
        said = {"instance_id": machine.name}
        if self.metadata is not None:
            said |= {"metadata_service": self.metadata.url(machine.name), "cloud": "gcp"}
        config.write_text(json.dumps(said))
        with (home / "agent.log").open("wb") as log:
            return subprocess.Popen(
                [
                    *(WINDLASS, "agent", "run", "--master", self._master_url, "--pool", "compute"),
                    *("--agent-id", machine.name, "--join-token-file", str(token)),
                    *("--work-dir", str(home / "work"), "--artificial-slots", str(self._slots)),
                    *("--config-file", str(config)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def launch_token(machine: Machine) -> str:
    said = re.search(r"^TOKEN='?([^'\n]+)'?$", machine.user_data, re.M)
    assert said is not None, machine.user_data
    return said.group(1)
