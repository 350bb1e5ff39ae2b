"""Everything that is opened goes on when the master is killed and started again, on each database.

Started, used, listed and killed by the published client, unmodified; what serves is the same process before and after.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import yaml

from tests.interactive import JUPYTER, needs_jupyter, unstarted_experiment, until_ready
from tests.jails import open_way_to
from tests.published import COMPAT, PublishedDet, needs_published, run_det
from tests.real_cluster import PATIENCE_S, RealCluster, eventually, free_port

pytestmark = [needs_published, needs_jupyter, pytest.mark.timeout(300)]
AUX = "resources.slots=0"
ECHO = """
import asyncio, sys

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def main():
    async with await asyncio.start_server(echo, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealCluster]:
    open_way_to(JUPYTER / "bin")
    config: dict[str, Any] = {"resource_pools": [{"pool_name": "default"}]}
    if request.param == "postgresql":
        config["db"] = {"url": request.getfixturevalue("postgres_url")}
    with RealCluster(tmp_path, config) as cluster:
        cluster.start_agent("node", slots=1, options={"python": str(JUPYTER)})
        yield cluster


@pytest.fixture
def det(cluster: RealCluster) -> Iterator[PublishedDet]:
    with PublishedDet(cluster) as det:
        yield det


class Opened:
    """One that serves something."""

    def __init__(self, cluster: RealCluster, noun: str, task_id: str) -> None:
        self.cluster, self.noun, self.id = cluster, noun, task_id
        until_ready(cluster, task_id)
        self._process = eventually("it serves", self.process)

    def process(self) -> psutil.Process | None:
        """What serves on its port."""
        live = self.cluster.get("/api/v1/tasks")["allocationIdToSummary"][f"{self.id}.1"]
        (port,) = live["proxyPorts"]
        for one in psutil.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN and one.laddr.port == port["port"]:
                return psutil.Process(one.pid)
        return None

    def look(self) -> dict[str, Any]:
        return dict(self.cluster.get(f"/api/v1/{self.noun}s/{self.id}")[self.noun])

    def assert_goes_on(self, det: PublishedDet) -> None:
        eventually(f"{self.noun} runs", lambda: self.look()["state"] == "STATE_RUNNING")
        assert self.process() == self._process, "the same process with the same port"
        assert self.id in det(self.noun, "list")
        assert self.listed(det)["state"] == "RUNNING"

    def assert_ends(self, det: PublishedDet) -> None:
        assert det(self.noun, "kill", self.id[:8]) == f"Killed {self.noun} {self.id}\n"
        eventually(f"{self.noun} is over", lambda: self.look()["exitStatus"])
        again = self.cluster.client.session.post(f"/api/v1/{self.noun}s/{self.id}/kill")
        assert again[self.noun]["id"] == self.id
        assert again[self.noun]["exitStatus"] == "killed by determined"
        assert self.listed(det)["state"] == "TERMINATED"
        assert not self._process.is_running()

    def listed(self, det: PublishedDet) -> Mapping[str, Any]:
        (found,) = (x for x in json.loads(det(self.noun, "list", "--json")) if x["id"] == self.id)
        return dict(found)


def start(cluster: RealCluster, det: PublishedDet, noun: str, *words: str) -> Opened:
    said = det(noun, *words, "--config", AUX)
    return Opened(cluster, noun, said.split()[-1])


def page(cluster: RealCluster, address: str) -> int:
    """The status of the answer to somebody who has the address alone, or has logged in."""
    path, _, query = address.partition("?token=")
    token = f"token {query}" if query else f"Bearer {cluster.client.session.token}"
    url = f"{cluster.url}{path}{'api/status' if query else ''}"
    with suppress(httpx2.HTTPError):
        return httpx2.get(url, headers={"Authorization": token}, timeout=PATIENCE_S).status_code
    return 0


class Tunnel:
    """`python -m determined.cli.tunnel --listener`. A context manager."""

    def __init__(self, cluster: RealCluster, service: str) -> None:
        self._port = free_port()
        words = ("-m", "determined.cli.tunnel", cluster.url, service, "--auth")
        self._program = subprocess.Popen(
            [COMPAT / "python", *words, "--listener", str(self._port)],
            env={"HOME": str(cluster.folder), "PATH": os.environ["PATH"], **cluster.login_as()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.kill()
        self._program.wait()

    def connected(self) -> socket.socket | None:
        """A connection that is answered."""
        with suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", self._port), timeout=5)
            if echoes(connection):
                return connection
            connection.close()
        return None


def echoes(connection: socket.socket) -> bool:
    connection.sendall(b"hello")
    return connection.recv(5) == b"hello"


def is_broken(connection: socket.socket) -> bool:
    """The client's own end says it only to somebody who sends."""
    connection.settimeout(0.5)
    try:
        connection.sendall(b"x")
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


class GenericTasks:
    """One that runs until a file is there, and one that is paused."""

    def __init__(self, cluster: RealCluster, det: PublishedDet, folder: Path) -> None:
        self._cluster, self._det, self._folder = cluster, det, folder
        self._gates = folder / "gates"
        self._gates.mkdir()
        self._running = self._create("until [ -e /gates/open ]; do sleep 0.1; done; echo the end")
        self._paused = self._create("echo in $DET_ALLOCATION_ID; exec sleep 600")
        self._until_it_says(self._paused, f"in {self._paused}.1")
        det("task", "pause", self._paused)
        self._until(self._paused, "PAUSED")

    def _create(self, script: str) -> str:
        file = self._folder / "task.yaml"
        config = {
            "entrypoint": ["sh", "-c", script],
            "bind_mounts": [{"host_path": str(self._gates), "container_path": "/gates"}],
            "resources": {"slots": 0},
        }
        file.write_text(yaml.safe_dump(config))
        return self._det("task", "create", str(file)).split()[-1]

    def assert_go_on(self) -> None:
        assert (self._state(self._running), self._state(self._paused)) == ("ACTIVE", "PAUSED")
        listed = json.loads(self._det("task", "list", "--json"))
        assert f"{self._running}.1" in listed
        assert self._paused not in {one["taskId"] for one in listed.values()}
        assert f"Generic Task {self._running}" in self._det("task", "list")

    def assert_end(self) -> None:
        (self._gates / "open").touch()
        self._until_it_says(self._running, "the end")
        self._until(self._running, "COMPLETED")
        allocations = self._cluster.get(f"/api/v1/tasks/{self._running}")["task"]["allocations"]
        assert [one["allocationId"] for one in allocations] == [f"{self._running}.1"]
        self._det("task", "unpause", self._paused)
        self._until_it_says(self._paused, f"in {self._paused}.2")
        self._det("task", "kill", self._paused)
        self._until(self._paused, "CANCELED")
        refused = self._det.run("task", "kill", self._paused)["said"]
        assert f"cannot cancel task {self._paused} as it is in state CANCELED" in refused

    def _state(self, task_id: str) -> str:
        state = str(self._cluster.get(f"/api/v1/tasks/{task_id}")["task"]["taskState"])
        return state.removeprefix("GENERIC_TASK_STATE_")

    def _until(self, task_id: str, state: str) -> None:
        eventually(f"{task_id} is {state}", lambda: self._state(task_id) == state)

    def _until_it_says(self, task_id: str, words: str) -> None:
        eventually(f"it says {words}", lambda: f"|| {words}" in self._det("task", "logs", task_id))


def test_what_is_open_goes_on_after_a_crash(
    cluster: RealCluster, det: PublishedDet, tmp_path: Path
) -> None:
    experiment = unstarted_experiment(cluster, tmp_path / "storage")
    port = free_port()
    ports = f'environment.proxy_ports=[{{"proxy_port": {port}, "proxy_tcp": true}}]'
    echo = ("python3", "-c", ECHO, str(port))
    notebook = start(cluster, det, "notebook", "start", "--detach")
    shell = start(cluster, det, "shell", "start", "--detach")
    board = start(cluster, det, "tensorboard", "start", "--detach", str(experiment))
    command = start(cluster, det, "command", "run", "--config", ports, "--detach", *echo)
    generic = GenericTasks(cluster, det, tmp_path)
    key = shell.look()["privateKey"]
    address = notebook.look()["serviceAddress"]
    everything = (notebook, shell, board, command)
    with Tunnel(cluster, f"{command.id}:{port}") as tunnel:
        with eventually("the tunnel is open", tunnel.connected) as connection:
            cluster.kill_master()
            cluster.start_master()
            eventually("connections break", lambda: is_broken(connection))
        eventually("the agent is back", cluster.agents)
        for opened in everything:
            opened.assert_goes_on(det)
        generic.assert_go_on()
        eventually("the next connection works", tunnel.connected).close()
    assert notebook.look()["serviceAddress"] == address, "its users need no other token"
    eventually("the notebook answers", lambda: page(cluster, address) == 200)
    eventually("TensorBoard does", lambda: page(cluster, board.look()["serviceAddress"]) == 200)
    assert shell.look()["privateKey"] == key
    said = run_det(cluster, "shell", "open", shell.id, "echo it is $DET_TASK_ID")
    assert f"it is {shell.id}" in said
    for opened in everything:
        opened.assert_ends(det)
    generic.assert_end()
