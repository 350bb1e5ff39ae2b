"""Machines of a cloud's double that boot by their own user data, each in a folder with a systemd of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tests.fakes.cloud_machine import CloudMachine, metadata_service
from tests.real_cluster import WINDLASS

EVERY_S = 0.2
SOFTWARE = f"{Path(WINDLASS).parent}:{os.environ['PATH']}"


class BootingMachines:
    """A context manager. What runs on a machine ends when the double lists it no more, and with the test."""

    def __init__(
        self,
        folder: Path,
        running: Callable[[], Mapping[str, str]],
        ended: Callable[[str, str], None],
    ) -> None:
        """`running`: id -> user data of machines that run; `ended`: one that shut itself down, and its console."""
        self._folder = folder
        self.running = running
        self._ended = ended
        self._machines: dict[str, CloudMachine] = {}
        self._boots: list[threading.Thread] = []
        self._metadata = ExitStack()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.consoles: dict[str, str] = {}
        self.user_data: dict[str, str] = {}

    def __enter__(self) -> BootingMachines:
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
        for machine in self._machines.values():
            machine.stop()
        for boot in self._boots:
            boot.join(30)
        self._metadata.close()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            running = self.running()
            for name in self._machines.keys() - running.keys():
                self._machines[name].stop()
            for name in running.keys() - self._machines.keys():
                self.user_data[name] = running[name]
                metadata = self._metadata.enter_context(metadata_service(name))
                self._machines[name] = CloudMachine(self._folder / name, metadata)
                boot = threading.Thread(target=self._boot, args=(name,), daemon=True)
                self._boots.append(boot)
                boot.start()

    def _boot(self, name: str) -> None:
        machine = self._machines[name]
        self.consoles[name] = machine.boot(self.user_data[name], path=SOFTWARE)
        if machine.has_ended_itself:
            self._ended(name, self.consoles[name])
