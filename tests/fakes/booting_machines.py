"""Machines of a cloud's double that boot by their own user data, each in a folder with a systemd of its own.

Where network namespaces are allowed, each may have one, with its metadata service at the real address.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from botocore.exceptions import ClientError

from provisioner.providers.images import is_bake
from tests import namespaces
from tests.fakes.cloud_machine import CloudMachine, metadata_service
from tests.fakes.cloud_network import machine_network
from tests.fakes.ec2_server import Ec2Server
from tests.fakes.gce import FakeGce
from tests.fakes.watched_machines import WatchedMachines
from tests.real_cluster import WINDLASS

SOFTWARE = f"{Path(WINDLASS).parent}:{os.environ['PATH']}"


class BootingMachines(WatchedMachines):
    """What runs on a machine ends when the double lists it no more, and with the test."""

    def __init__(
        self,
        folder: Path,
        running: Callable[[], Mapping[str, str]],
        ended: Callable[[str, str], None],
        agent: Sequence[str] = (),
        reached: Sequence[int] = (),
    ) -> None:
        """`running`: id -> user data of machines that run; `ended`: one that shut itself down, and its console;
        `agent`: what is said of each in its agent.yaml, as key=value;
        `reached`: ports of the loopback here. Given, each has a network of its own with these on its loopback, where
        network namespaces are allowed."""
        super().__init__()
        self._folder = folder
        self.running = running
        self._ended = ended
        self._agent = agent
        self._reached = reached if reached and namespaces.works() else ()
        self._machines: dict[str, CloudMachine] = {}
        self._boots: list[threading.Thread] = []
        self._networks = ExitStack()
        self.consoles: dict[str, str] = {}
        self.user_data: dict[str, str] = {}

    def _look(self) -> None:
        running = self.running()
        for name in self._machines.keys() - running.keys():
            self._machines[name].stop()
        for name in running.keys() - self._machines.keys():
            self.user_data[name] = running[name]
            self._machines[name] = self._machine(name)
            boot = threading.Thread(target=self._boot, args=(name,), daemon=True)
            self._boots.append(boot)
            boot.start()

    def _end(self) -> None:
        for machine in self._machines.values():
            machine.stop()
        for boot in self._boots:
            boot.join(30)
        self._networks.close()

    def _machine(self, name: str) -> CloudMachine:
        metadata, via = "", ()
        if self._reached:
            network = self._networks.enter_context(machine_network(name, self._reached))
            via = ("nsenter", "-t", str(network.pid), "--net", "--")
        else:
            metadata = self._networks.enter_context(metadata_service(name))
        return CloudMachine(self._folder / name, metadata, self._agent, via)

    def _boot(self, name: str) -> None:
        machine = self._machines[name]
        self.consoles[name] = machine.boot(self.user_data[name], path=SOFTWARE)
        if machine.has_ended_itself:
            self._ended(name, self.consoles[name])


def both_clouds(
    server: Ec2Server, gce: FakeGce
) -> tuple[Callable[[], Mapping[str, str]], Callable[[str, str], None]]:
    """How the machines that run are found, and what becomes of one that shut itself down."""
    client = server.client()
    scripts: dict[str, str] = {}
    of_images: set[str] = set()
    """They stop when they shut down."""

    def running() -> Mapping[str, str]:
        found: dict[str, str] = {}
        for group in client.describe_instances()["Reservations"]:
            for machine in group["Instances"]:
                id_ = machine["InstanceId"]
                tags = {tag["Key"]: tag["Value"] for tag in machine.get("Tags", ())}
                # moto lists a machine before it has its tags.
                if machine["State"]["Name"] == "running" and "windlass:intent" in tags:
                    if id_ not in scripts:
                        asked = {"InstanceId": id_, "Attribute": "userData"}
                        value = client.describe_instance_attribute(**asked)["UserData"]["Value"]
                        scripts[id_] = base64.b64decode(value).decode()
                        if is_bake(tags["windlass:intent"]):
                            of_images.add(id_)
                    found[id_] = scripts[id_]
        with gce.cloud.lock:
            machines = gce.cloud.machines.values()
            return found | {m.name: m.user_data for m in machines if m.status == "RUNNING"}

    def ended(name: str, console: str) -> None:
        if name.startswith("i-"):
            server.console(name, console)
            if name in of_images:
                with suppress(ClientError):  # the master may have ended it
                    client.stop_instances(InstanceIds=[name])
            else:
                server.shut_down(name)
        else:
            with suppress(StopIteration):  # the master may have ended it
                gce.cloud.named(name).console = console
                gce.cloud.stop(name)

    return running, ended
