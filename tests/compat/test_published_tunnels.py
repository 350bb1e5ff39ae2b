"""Tunnels of the published client, unmodified, to a port of a task."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_published_client import COMPAT, PUBLISHED_PYTHON

from tests.certificates import Authority
from tests.real_cluster import PATIENCE_S, RealCluster, eventually, free_port

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)
OTHER_NAME = "master.example"
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


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """One by TLS, whose master is also called `OTHER_NAME`."""
    folder = tmp_path_factory.mktemp("secure-tunnels")
    authority = Authority(folder / "authority")
    issued = authority.issue(hosts=("127.0.0.1", OTHER_NAME))
    files = {"cert": str(issued.cert), "key": str(issued.key)}
    config = {"resource_pools": [{"pool_name": "default"}], "security": {"tls": files}}
    with RealCluster(folder / "cluster", config, trust=authority.root) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


@contextmanager
def running(
    cluster: RealCluster, *words: str, cwd: Path, more: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the published client, killed in the end. `more`: variables."""
    with subprocess.Popen(
        [COMPAT / words[0], *words[1:]],
        env=environment(cluster) | dict(more or {}),
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
    cluster: RealCluster, service: str, *options: str, **more: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    words = ("python", "-m", "determined.cli.tunnel", cluster.url, service, *options)
    return running(cluster, *words, cwd=cluster.folder, more=more)


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


def answers(port: int) -> bool:
    """An echo, at a port of this machine."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as one:
        one.sendall(b"hello")
        return one.recv(100) == b"hello"
    return False


def echoed(client: subprocess.Popen[bytes], data: bytes) -> bytes:
    """What comes back of it, up to the same length or the client's end."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(data)
    client.stdin.flush()
    came = b""
    while len(came) < len(data) and (read := os.read(client.stdout.fileno(), 65536)):
        came += read
    return came


@pytest.mark.parametrize("auth", [True, False])
def test_standard_input_and_output(cluster: RealCluster, auth: bool) -> None:
    port = free_port()
    task_id = command(cluster, {"proxy_port": port, "proxy_tcp": True, "unauthenticated": not auth})
    with tunnel(cluster, f"{task_id}:{port}", *(["--auth"] if auth else [])) as client:
        data = os.urandom(30_000)
        assert echoed(client, data) == data
        assert client.stdin is not None
        client.stdin.close()
        assert client.wait(PATIENCE_S) == 0


def test_a_wrong_service_is_said(cluster: RealCluster) -> None:
    with tunnel(cluster, "no-such-task:1") as client:
        assert client.stdout is not None
        assert any(b"Connection failed" in line for line in client.stdout)


def test_each_connection_to_a_listener_has_a_tunnel_of_its_own(cluster: RealCluster) -> None:
    port, local = free_port(), free_port()
    task_id = command(cluster, {"proxy_port": port, "proxy_tcp": True})
    with tunnel(cluster, f"{task_id}:{port}", "--auth", "--listener", str(local)):
        eventually("it listens", lambda: answers(local))
        with socket.create_connection(("127.0.0.1", local), timeout=PATIENCE_S) as slow:
            slow.sendall(b"first")
            assert answers(local), "while another is open"
            assert slow.recv(100) == b"first"
            slow.shutdown(socket.SHUT_WR)
            assert slow.recv(100) == b""
        assert answers(local), "after it has ended"


def test_the_user_of_a_tunnel_may_be_named(cluster: RealCluster) -> None:
    port = free_port()
    task_id = command(cluster, {"proxy_port": port, "proxy_tcp": True})
    words = ("det", "-m", cluster.url, "user", "whoami")
    with running(cluster, *words, cwd=cluster.folder) as client:
        assert client.wait(PATIENCE_S) == 0, "its login is kept in the home"
    named = ("--auth", "-u", "determined")
    with tunnel(cluster, f"{task_id}:{port}", *named, DET_USER="nobody") as client:
        assert echoed(client, b"hello") == b"hello"


def test_a_tunnel_trusts_the_master_as_it_is_told(secure: RealCluster) -> None:
    port = free_port()
    task_id = command(secure, {"proxy_port": port, "proxy_tcp": True, "unauthenticated": True})
    file = environment(secure)["DET_MASTER_CERT_FILE"]
    service, unset = f"{task_id}:{port}", {"DET_MASTER_CERT_FILE": ""}
    for options in (
        ("--cert-file", file),
        ("--cert-file", "noverify"),
        ("--cert-file", file, "--cert-name", OTHER_NAME),
        ("--cert-file", file, "--auth"),
    ):
        with tunnel(secure, service, *options, **unset) as client:
            assert echoed(client, b"hello") == b"hello", options
    for options in ((), ("--cert-file", file, "--cert-name", "wrong.example")):
        with tunnel(secure, service, *options, **unset) as client:
            assert client.stdout is not None
            failed = next(line for line in client.stdout if b": Connection failed" in line)
            assert b"unable to connect" in failed, options


def test_a_port_of_a_generic_task(cluster: RealCluster, tmp_path: Path) -> None:
    port, local = free_port(), free_port()
    config = {
        "entrypoint": ["python3", "-c", ECHO.format(port=port)],
        "environment": {"proxy_ports": [{"proxy_port": port, "proxy_tcp": True}]},
        "resources": {"slots": 0},
    }
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(config))
    words = ("det", "-m", cluster.url, "task", "create", "task.yaml")
    with running(cluster, *words, cwd=tmp_path) as created:
        assert created.stdout is not None
        task_id = created.stdout.read().decode().split()[-1]
    with tunnel(cluster, f"{task_id}:{port}", "--auth", "--listener", str(local)):
        eventually("the port answers", lambda: answers(local))
    cluster.client.session.post(f"/api/v1/tasks/{task_id}/kill", {})


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

    with running(cluster, *words, cwd=tmp_path):
        eventually("the port answers", lambda: answers(local))
    for experiment in cluster.get("/api/v1/experiments")["experiments"]:
        cluster.client.session.post(f"/api/v1/experiments/{experiment['id']}/kill", {})
