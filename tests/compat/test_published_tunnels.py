"""Tunnels of the published client, unmodified, to a port of a task."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_published_client import COMPAT, PUBLISHED_PYTHON

from tests.real_cluster import PATIENCE_S, RealCluster, eventually

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)
ECHO = """
import asyncio

async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def main():
    await asyncio.start_server(echo, "127.0.0.1", {port})
    print("serving", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("tunnels")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1, options=PUBLISHED_PYTHON)
        yield cluster


def environment(cluster: RealCluster) -> dict[str, str]:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    return {"HOME": str(home), "PATH": os.environ["PATH"], **cluster.login_as()}


@contextmanager
def running(cluster: RealCluster, *words: str, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the published client, killed in the end."""
    with subprocess.Popen(
        [COMPAT / words[0], *words[1:]],
        env=environment(cluster),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def tunnel(
    cluster: RealCluster, service: str, *options: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    words = ("python", "-m", "determined.cli.tunnel", cluster.url, service, *options)
    return running(cluster, *words, cwd=cluster.folder)


def command(cluster: RealCluster, *ports: dict[str, Any]) -> str:
    """One that serves an echo on the first port."""
    body = {
        "config": {
            "entrypoint": ["python3", "-c", ECHO.format(port=ports[0]["proxy_port"])],
            "environment": {"proxy_ports": list(ports)},
            "resources": {"slots": 0},
        }
    }
    task_id = str(cluster.client.session.post("/api/v1/commands", body)["command"]["id"])
    path = f"/api/v1/tasks/{task_id}/logs"
    eventually(
        "it serves",
        lambda: any("serving" in str(x["log"]) for x in cluster.client.session.stream(path, None)),
    )
    return task_id


@pytest.mark.parametrize("auth", [True, False])
def test_standard_input_and_output(cluster: RealCluster, auth: bool) -> None:
    port = free_port()
    task_id = command(cluster, {"proxy_port": port, "proxy_tcp": True, "unauthenticated": not auth})
    with tunnel(cluster, f"{task_id}:{port}", *(["--auth"] if auth else [])) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        data = os.urandom(30_000)
        client.stdin.write(data)
        client.stdin.flush()
        came = b""
        while len(came) < len(data):
            came += os.read(client.stdout.fileno(), 65536)
        assert came == data
        client.stdin.close()
        assert client.wait(PATIENCE_S) == 0


def test_a_wrong_service_is_said(cluster: RealCluster) -> None:
    with tunnel(cluster, "no-such-task:1") as client:
        assert client.stdout is not None
        assert any(b"Connection failed" in line for line in client.stdout)


def test_ports_of_an_experiment_that_is_followed(cluster: RealCluster, tmp_path: Path) -> None:
    """`det experiment create -f -p`."""
    task_port, local = free_port(), free_port()
    (tmp_path / "serve.py").write_text(
        ECHO.format(port=task_port).replace("sleep(600)", "sleep(30)")
    )
    config = {
        "name": "served",
        "entrypoint": "python3 serve.py",
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "environment": {"proxy_ports": [{"proxy_port": task_port, "proxy_tcp": True}]},
        "resources": {"slots_per_trial": 1},
        "max_restarts": 0,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    words = [
        "det",
        "-m",
        cluster.url,
        "experiment",
        "create",
        "config.yaml",
        ".",
        "-f",
        "-p",
        f"{local}:{task_port}",
    ]

    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", local), timeout=5) as one:
            one.sendall(b"hello")
            return one.recv(100) == b"hello"
        return False

    with running(cluster, *words, cwd=tmp_path):
        eventually("the port answers", answers)
    for experiment in cluster.get("/api/v1/experiments")["experiments"]:
        cluster.client.session.post(f"/api/v1/experiments/{experiment['id']}/kill", {})
