"""What boots the machines of a cloud's double: a thread that looks at them until the test ends."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.real_cluster import WINDLASS

EVERY_S = 0.2


class WatchedMachines(ABC):
    """A context manager: what runs on the machines ends with it."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
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
        self._end()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._look()

    @abstractmethod
    def _look(self) -> None:
        """Start what runs on new machines, and end what ran on those that are gone."""

    @abstractmethod
    def _end(self) -> None:
        """End whatever still runs."""


class AgentMachines(WatchedMachines):
    """An agent for each machine that runs, with the launch token of its user data. It ends when its machine does."""

    def __init__(self, folder: Path, master_url: str, slots: int) -> None:
        super().__init__()
        self._folder = folder
        self._master_url = master_url
        self._slots = slots
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        self.boots = threading.Event()
        """Unset: machines run, but nothing starts on them."""
        self.boots.set()

    @abstractmethod
    def _running(self) -> set[str]: ...

    @abstractmethod
    def _user_data(self, machine: str) -> str: ...

    @abstractmethod
    def _metadata_settings(self, machine: str) -> dict[str, str]:
        """What its agent.yaml says of the metadata service; nothing where the double has none."""

    def _look(self) -> None:
        running = self._running()
        for machine, agent in self._agents.items():
            if machine not in running and agent.poll() is None:
                agent.terminate()
                agent.wait()
        if self.boots.is_set():
            for machine in running - self._agents.keys():
                self._agents[machine] = self._boot(machine)

    def _end(self) -> None:
        for agent in self._agents.values():
            agent.kill()
            agent.wait()

    def _boot(self, machine: str) -> subprocess.Popen[bytes]:
        home = self._folder / machine
        home.mkdir(parents=True)
        token = home / "token"
        token.touch(mode=0o600)
        token.write_text(launch_token(self._user_data(machine)))
        config = home / "agent.yaml"
        config.write_text(json.dumps({"instance_id": machine, **self._metadata_settings(machine)}))
        with (home / "agent.log").open("wb") as log:
            return subprocess.Popen(
                [
                    *(WINDLASS, "agent", "run", "--master", self._master_url, "--pool", "compute"),
                    *("--agent-id", machine, "--join-token-file", str(token)),
                    *("--work-dir", str(home / "work"), "--artificial-slots", str(self._slots)),
                    *("--config-file", str(config)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def launch_token(user_data: str) -> str:
    found = re.search(r"^TOKEN='?([^'\n]+)'?$", user_data, re.M)
    assert found is not None, user_data
    return found.group(1)
