"""How ports of a tunnel are written, and what is said of those that lead nowhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from windlass.base.errors import InvalidArgument, NotFound
from windlass.cli.published_ports import published_ports, same_ports
from windlass.sdk.session import Session
from windlass.sdk.tunnel import local_ports, services_of, tunnels


class Listed(Session):
    """A master with one running task."""

    def get(self, path: str, query: Any = None) -> dict[str, Any]:
        assert path == "/api/v1/tasks"
        ports = [
            {"port": 22, "proxyTcp": True, "serviceId": "t-1:22"},
            {"port": 80, "proxyTcp": False, "serviceId": "t-1:80"},
        ]
        return {"allocationIdToSummary": {"t-1.1": {"taskId": "t-1", "proxyPorts": ports}}}


def test_ports() -> None:
    assert local_ports(["22", "8022:22", "80"]) == {22: 22, 8022: 22, 80: 80}


@pytest.mark.parametrize("word", ["", "a", "0", "65536", "1:", ":", "1:2:3", "-1", "²"])
def test_what_is_no_port(word: str) -> None:
    with pytest.raises(InvalidArgument, match="LOCAL:PORT"):
        local_ports([word])


def test_one_local_port_leads_to_one_place() -> None:
    with pytest.raises(InvalidArgument, match="port 22 of this machine is named twice"):
        local_ports(["22", "22:80"])


def test_only_ports_that_the_task_serves_by_tcp_have_tunnels() -> None:
    session = Listed("http://master:8080")
    assert services_of(session, "t-1", [22]) == {22: "t-1:22"}
    with pytest.raises(
        InvalidArgument, match=r"port 23 is not .*TCP ports it serves: 22.*proxy_tcp"
    ):
        services_of(session, "t-1", [22, 23])
    with pytest.raises(
        InvalidArgument, match="served as HTTP, at http://master:8080/proxy/t-1:80/"
    ):
        services_of(session, "t-1", [80])
    with pytest.raises(NotFound, match="running task 't-2'"):
        services_of(session, "t-2", [22])


class Echo:
    """A master whose one service answers what it is sent, and says how its caller logged in."""

    def __init__(self) -> None:
        self.logins: list[str | None] = []
        self._server = serve(self._echo, "127.0.0.1", 0, process_request=self._asked)
        self.port = self._server.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _asked(self, connection: ServerConnection, request: Request) -> Response | None:
        match request.path:
            case "/proxy/t-1:22/" | "/proxy/broken/":
                self.logins.append(request.headers.get("Authorization"))
                return None
            case "/proxy/private/":
                return connection.respond(401, '{"error": {"error": "log in to reach it"}}')
            case _:
                return connection.respond(404, '{"error": {"error": "service not found: t-2"}}')

    def _echo(self, connection: ServerConnection) -> None:
        for data in connection:
            if connection.request is not None and "broken" in connection.request.path:
                connection.close(1011, "the agent's connection was lost")
            elif not data:  # this direction has ended
                return
            else:
                connection.send(data)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


def det_tunnel(echo: Echo, service: str, sent: bytes) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-P", "-m", "windlass", "-m", echo.url, "tunnel", service]
    return subprocess.run(words, input=sent, capture_output=True, check=False, timeout=60)


def test_standard_input_comes_back_whole_and_its_end_is_handed_on(echo: Echo) -> None:
    sent = os.urandom(3_000_000)
    done = det_tunnel(echo, "t-1:22", sent)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == sent
    assert echo.logins == [None], "who does not log in sends no empty login"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("service", "said"),
    [
        ("t-2", b"error: service not found: t-2\n"),
        ("private", b"error: log in to reach it. private is no shell: use --auth\n"),
        ("broken", b"the agent's connection was lost"),
    ],
)
def test_a_tunnel_that_leads_nowhere_says_why(service: str, said: bytes, echo: Echo) -> None:
    done = det_tunnel(echo, service, b"hello")
    assert (done.returncode, done.stdout) == (1, b"")
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


def test_ports_lead_to_a_task_while_the_block_runs(echo: Echo) -> None:
    told: list[str] = []
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    with tunnels(Session(echo.url, "token"), {port: "t-1:22"}, told.append):
        assert told == [f"127.0.0.1:{port} leads to t-1:22"]
        with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
            one.sendall(b"hello")
            assert one.recv(100) == b"hello"
            one.shutdown(socket.SHUT_WR)
            assert one.recv(100) == b""
        taken = tunnels(Session(echo.url), {port: "t-1:22"}, told.append)
        with pytest.raises(InvalidArgument, match=f"port {port} of this machine cannot"), taken:
            pass
    assert echo.logins == ["Bearer token"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=60)


@pytest.mark.parametrize(
    ("master", "ports", "told"),
    [
        ("http://127.0.0.1:8080", {5678: 5678}, "port 5678 of this machine"),
        ("http://localhost:8080", {1: 1, 2: 3, 4: 4}, "port 1, 4 of this machine"),
        ("http://[::1]:8080", {5678: 5678}, "port 5678 of this machine"),
        ("http://127.0.0.1:8080", {15678: 5678}, ""),
        ("https://master.example:8443", {5678: 5678}, ""),
    ],
)
def test_ports_that_a_task_of_this_machine_may_want_are_told(
    master: str, ports: dict[int, int], told: str
) -> None:
    warning = same_ports(master, ports)
    assert bool(warning) is bool(told)
    assert warning.startswith(told)


def test_published_ports_are_ones_that_the_configuration_names() -> None:
    served = {"proxy_port": 5678, "proxy_tcp": True}
    config = {"environment": {"proxy_ports": [served, {"proxy_port": 80}]}}
    assert published_ports(["15678:5678"], config) == {15678: 5678}
    assert published_ports([], {}) == {}
    for word, given in (("80", config), ("81", config), ("5678", {}), ("5678", {"environment": 1})):
        with pytest.raises(InvalidArgument, match=f"port {word}: the configuration does not name"):
            published_ports([word], given)
