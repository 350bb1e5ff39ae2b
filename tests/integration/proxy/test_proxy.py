"""The proxy of a real master, to services of a task on a real agent."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from asyncio import gather, to_thread
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_later
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.real_cluster import RealCluster, eventually

SERVICE = Path(__file__).with_name("service.py")
BLOCK = bytes(range(256)) * 256
LIMIT_S = 60


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(frozen=True)
class Served:
    cluster: RealCluster
    task_id: str
    http: int
    tcp: int
    sockets: int

    def name(self, port: int) -> str:
        return f"{self.task_id}:{port}"

    @property
    def token(self) -> str:
        return str(self.cluster.client.session.token)

    def url(self, path: str, port: int | None = None) -> str:
        return f"{self.cluster.url}/proxy/{self.name(port or self.http)}/{path}"

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", **given.pop("headers", {})}
        return httpx.request(method, self.url(path), headers=headers, timeout=LIMIT_S, **given)

    def socket(self, port: int, path: str = "", **given: Any) -> ClientConnection:
        url = self.url(path, port).replace("http", "ws", 1)
        headers = {"Authorization": f"Bearer {self.token}"}
        return connect(
            url, additional_headers=headers, open_timeout=LIMIT_S, max_size=None, **given
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    config = {"resource_pools": [{"pool_name": "default"}]}
    with RealCluster(tmp_path_factory.mktemp("proxy"), config) as cluster:
        cluster.start_agent("node-1", slots=1)
        http, tcp, sockets = free_port(), free_port(), free_port()
        ports = [
            {"proxy_port": http},
            {"proxy_port": tcp, "proxy_tcp": True},
            {"proxy_port": sockets, "unauthenticated": True},
        ]
        program = {"path": "service.py", "content": base64.b64encode(SERVICE.read_bytes()).decode()}
        body = {
            "config": {
                "entrypoint": ["python3", "service.py", str(http), str(tcp), str(sockets)],
                "environment": {"proxy_ports": ports},
                "resources": {"slots": 0},
            },
            "files": [{**program, "type": ord("0"), "mode": 0o644}],
        }
        task_id = str(cluster.client.session.post("/api/v1/commands", body)["command"]["id"])

        def is_serving() -> bool:
            lines = cluster.client.session.stream(f"/api/v1/tasks/{task_id}/logs", None)
            return any("serving" in str(line["log"]) for line in lines)

        eventually("the task serves", is_serving)
        yield Served(cluster, task_id, http, tcp, sockets)


def test_a_request_goes_as_it_came_but_without_the_callers_token(served: Served) -> None:
    path = "a%2Fb/../c//d?snake_key=1&x=%20"
    headers = {
        "Cookie": f"mine=1; auth={served.token}; other=2",
        "X-Own": "yes",
        "Connection": "close, X-Hop",
        "X-Hop": "gone",
    }
    at = urlsplit(served.cluster.url)
    address = (str(at.hostname), at.port or 80)
    with closing(socket.create_connection(address, timeout=LIMIT_S)) as raw:
        lines = [f"GET /proxy/{served.name(served.http)}/{path} HTTP/1.1", "Host: here"]
        lines += [f"{key}: {value}" for key, value in headers.items()]
        lines += [f"Authorization: Bearer {served.token}", "", ""]
        raw.sendall("\r\n".join(lines).encode())
        answer = b""
        while data := raw.recv(65536):
            answer += data
    seen = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert seen["target"] == f"/proxy/{served.name(served.http)}/{path}"
    told = dict(seen["headers"])
    assert told["cookie"] == "mine=1; other=2"
    assert told["x-own"] == "yes"
    assert told["x-forwarded-proto"] == "http"
    assert served.token not in str(seen)
    assert "authorization" not in told
    assert "x-hop" not in told
    assert answer.count(b"set-cookie") == 2


def test_another_kind_of_authorization_is_the_tasks(served: Served) -> None:
    cookies = {"Cookie": f"auth={served.token}"}
    seen = httpx.get(
        served.url("x"), headers={**cookies, "Authorization": "Basic dTpw"}, timeout=LIMIT_S
    ).json()
    assert dict(seen["headers"])["authorization"] == "Basic dTpw"


@pytest.mark.parametrize(("framing", "blocks"), [("length", 1600), ("chunked", 400)])
def test_large_bodies_pass_both_ways(served: Served, framing: str, blocks: int) -> None:
    """100 MB and 26 MB."""
    body = BLOCK * blocks
    sent: Any = body if framing == "length" else (BLOCK for _ in range(blocks))
    told = served.ask("POST", "upload", content=sent).json()
    assert told == {"sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
    came = served.ask("GET", f"chunks/{blocks}").content
    assert hashlib.sha256(came).hexdigest() == hashlib.sha256(body).hexdigest()


def test_odd_answers(served: Served) -> None:
    assert served.ask("HEAD", "x").status_code == 200
    assert served.ask("HEAD", "x").content == b""
    nothing = served.ask("GET", "none")
    assert (nothing.status_code, nothing.headers["etag"]) == (304, '"1"')
    early = served.ask("POST", "early", content=BLOCK * 100)
    assert (early.status_code, early.json()) == (413, {"early": True})
    expecting = served.ask("POST", "upload", content=b"x", headers={"Expect": "100-continue"})
    assert expecting.json()["size"] == 1
    garbage = served.ask("GET", "garbage")
    assert garbage.status_code == 502
    assert "does not answer" in garbage.json()["message"]
    for cut in ("dies", "bad-chunks"):
        with pytest.raises(httpx.RemoteProtocolError):
            served.ask("GET", cut)
    for broken in ("two-lengths", "long-head"):
        assert served.ask("GET", broken).status_code == 502
    longer = served.ask("GET", "longer")
    assert (longer.status_code, longer.content) == (200, b"four")


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(served: Served) -> None:
    parts = urlsplit(served.cluster.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), LIMIT_S) as one:
        head = f"POST /proxy/{served.name(served.http)}/upload HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        head += f"Authorization: Bearer {served.token}\r\nContent-Length: 4\r\n"
        one.sendall(f"{head}Expect: 100-continue\r\nConnection: close\r\n\r\n".encode())
        assert one.recv(65536).startswith(b"HTTP/1.1 100 ")
        one.sendall(b"body")
        answer = b""
        while got := one.recv(65536):
            answer += got
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["size"] == 4


def test_a_service_that_never_answers_holds_up_nobody_and_nothing_is_left(served: Served) -> None:
    def waiting() -> int:
        return int(served.ask("GET", "waiting").json())

    parts = urlsplit(served.cluster.url)
    address = (parts.hostname or "", parts.port or 0)
    head = f"GET /proxy/{served.name(served.http)}/silent HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    clients = [socket.create_connection(address, LIMIT_S) for _ in range(20)]
    for client in clients:
        client.sendall(f"{head}Authorization: Bearer {served.token}\r\n\r\n".encode())
    eventually("all of them wait", lambda: waiting() == len(clients))
    for client in clients:
        client.close()
    eventually("nobody waits", lambda: waiting() == 0)


def test_who_may_not_is_not_told_what_there_is(served: Served) -> None:
    unknown = httpx.get(f"{served.cluster.url}/proxy/nothing/x", timeout=LIMIT_S)
    assert unknown.status_code == 404
    assert unknown.json()["message"] == "service not found: nothing"
    asked = httpx.get(served.url("x?a=1"), timeout=LIMIT_S)
    assert asked.status_code == 303
    name = served.name(served.http).replace(":", "%3A")
    assert asked.headers["location"] == f"/det/login?redirect=%2Fproxy%2F{name}%2Fx%3Fa%3D1"
    assert served.ask("GET", "x").status_code == 200
    other = served.url("x", served.http + 1 if served.http + 1 != served.tcp else served.http + 2)
    assert httpx.get(other, timeout=LIMIT_S).status_code == 404


def test_a_websocket_without_a_login_is_refused_with_the_reason(served: Served) -> None:
    url = served.url("", served.tcp).replace("http", "ws", 1)
    bearer = {"Authorization": f"Bearer {'0' * 64}"}
    cookie = {"Cookie": f"auth={'0' * 64}"}
    for headers, status, why in (
        ({}, 401, "log in to reach it"),
        (bearer, 401, "invalid credentials"),
        ({**cookie, "Origin": served.cluster.url}, 401, "invalid credentials"),
        (cookie, 403, "Origin: must be this master"),
        ({**cookie, "Origin": "https://evil"}, 403, "Origin: must be this master"),
    ):
        with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=headers):
            pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["message"].startswith(why)


def test_a_session_that_has_ended_leads_to_the_form(served: Served) -> None:
    session = served.cluster.session()
    with closing(session):
        session.login("determined", served.cluster.password)
        cookie = {"Cookie": f"auth={session.token}"}
        assert httpx.get(served.url("x"), headers=cookie, timeout=LIMIT_S).status_code == 200
        session.post("/api/v1/auth/logout", {})
    ended = httpx.get(served.url("a%20b%2Fc"), headers=cookie, timeout=LIMIT_S)
    assert ended.status_code == 303
    assert ended.headers["location"].endswith("%2Fa%2520b%252Fc"), "the path as it was asked"


@pytest.mark.parametrize("before", ["..", "", ".", "%2e%2e", "nothing%2f..", "nothing/.."])
def test_no_path_leads_around_the_name_of_a_service(served: Served, before: str) -> None:
    """Sent as they are: clients would make them plain."""
    name = served.name(served.http)
    head = f"GET /proxy/{before}/{name}/x HTTP/1.1\r\nAuthorization: Bearer {served.token}\r\n"
    assert _raw(served, head) == 404


def test_a_path_within_a_service_goes_on_as_it_is(served: Served) -> None:
    for path in ("a/../b", "..%2f..%2fapi", "//x", "%2e%2e/%2e%2e/info"):
        head = f"GET /proxy/{served.name(served.http)}/{path} HTTP/1.1\r\n"
        assert _raw(served, f"{head}Authorization: Bearer {served.token}\r\n") == 200


def test_a_browser_that_names_another_host_is_refused(served: Served) -> None:
    head = f"GET /proxy/{served.name(served.http)}/x HTTP/1.1\r\nCookie: auth={served.token}\r\n"
    assert _raw(served, head) == 200
    assert _raw(served, head, host="evil.example") == 403


def _raw(served: Served, head: str, host: str = "") -> int:
    parts = urlsplit(served.cluster.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), LIMIT_S) as one:
        one.sendall(f"{head}Host: {host or parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while got := one.recv(65536):
            answer += got
    return int(answer.split()[1])


def test_no_log_has_what_was_shown_to_the_proxy(served: Served) -> None:
    session = served.cluster.session()
    with closing(session):
        session.login("determined", served.cluster.password)
        shown = f"auth={session.token}"
        browser = {"Cookie": shown, "Origin": served.cluster.url}
        for path in (f"x?token={session.token}", "x"):
            httpx.get(served.url(path), headers={"Cookie": shown}, timeout=LIMIT_S)
            url = served.url(path, served.sockets).replace("http", "ws", 1)
            with connect(url, additional_headers=browser, open_timeout=LIMIT_S) as one:
                assert one.recv(LIMIT_S)
            refused = served.url(path, served.tcp).replace("http", "ws", 1)
            with pytest.raises(InvalidStatus), connect(refused, additional_headers={"Cookie": "x"}):
                pass
    logs = [path for path in served.cluster.folder.rglob("*.log") if path.is_file()]
    assert logs
    for log in logs:
        said = log.read_text(errors="replace")
        assert str(session.token) not in said, log
        assert served.cluster.password not in said, log


def test_websockets_pass_with_their_subprotocol_and_close_code(served: Served) -> None:
    with served.socket(served.sockets, "ws?q=1", subprotocols=["echo"]) as one:
        told = json.loads(one.recv(LIMIT_S))
        assert told == {
            "path": f"/proxy/{served.name(served.sockets)}/ws?q=1",
            "subprotocol": "echo",
        }
        assert one.subprotocol == "echo"
        for message in ("text", b"bytes", "ü" * 70_000, BLOCK * 64):
            one.send(message)
            assert one.recv(LIMIT_S) == message
        one.send("close")
        with pytest.raises(ConnectionClosed) as closed:
            one.recv(LIMIT_S)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4321, "as you wish")


def test_a_websocket_goes_without_the_callers_token(served: Served) -> None:
    headers = {
        "Authorization": f"Bearer {served.token}",
        "Cookie": f"mine=1; auth={served.token}; other=2",
        "X-Own": "yes",
        "Origin": served.cluster.url,
    }
    url = served.url("ws", served.sockets).replace("http", "ws", 1)
    with connect(url, additional_headers=headers, open_timeout=LIMIT_S) as one:
        one.recv(LIMIT_S)
        one.send("headers")
        said = one.recv(LIMIT_S)
    told = {name.lower(): value for name, value in json.loads(said)}
    assert told["cookie"] == "mine=1; other=2"
    assert told["x-own"] == "yes"
    assert "authorization" not in told
    assert served.token not in str(said)


def test_a_task_that_dies_in_a_websocket_is_told_to_the_client(served: Served) -> None:
    with served.socket(served.sockets) as one:
        one.recv(LIMIT_S)
        one.send("die")
        with pytest.raises(ConnectionClosed) as closed:
            one.recv(LIMIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code in (1001, 1011)


async def test_two_hundred_websockets_at_once(served: Served) -> None:
    url = served.url("", served.sockets).replace("http", "ws", 1)
    sockets: list[AsyncConnection] = []
    async with AsyncExitStack() as stack:
        for _ in range(10):  # as a page opens them: some at a time
            opening = (connect_later(url, open_timeout=LIMIT_S) for _ in range(20))
            sockets += await gather(*(stack.enter_async_context(one) for one in opening))
        for _ in range(3):
            await gather(*(one.recv() for one in sockets))
            await gather(*(one.send(f"number {n}") for n, one in enumerate(sockets)))
        said = await gather(*(one.recv() for one in sockets))
        assert said == [f"number {n}" for n in range(200)]
        assert (await to_thread(served.ask, "GET", "x")).status_code == 200


def test_a_websocket_to_what_has_none_is_refused_before_it_opens(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refused, served.socket(served.http):
        pass
    assert refused.value.response.status_code == 502
    assert b"to a WebSocket" in (refused.value.response.body or b"")


def test_what_a_client_sent_before_it_left_reaches_the_task(served: Served) -> None:
    body = BLOCK * 200
    with served.socket(served.tcp) as tunnel:
        tunnel.send(b"count\n" + body)
    eventually(
        "all has come",
        lambda: (
            served.ask("GET", "counted").json() == [len(body), hashlib.sha256(body).hexdigest()]
        ),
    )


def test_one_who_reads_nothing_delays_nobody(served: Served) -> None:
    with served.socket(served.tcp, close_timeout=0.1) as tunnel:
        tunnel.send(b"flood\n")
        for _ in range(20):
            assert served.ask("GET", "chunks/20").content == BLOCK * 20
        assert tunnel.recv(LIMIT_S)


def test_a_task_that_ends_its_direction_closes_the_tunnel(served: Served) -> None:
    with served.socket(served.tcp) as tunnel:
        tunnel.send(b"last\n")
        assert tunnel.recv(LIMIT_S) == b"words"
        with pytest.raises(ConnectionClosed) as closed:
            tunnel.recv(LIMIT_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


def test_tcp_over_a_websocket(served: Served) -> None:
    with served.socket(served.tcp) as tunnel:
        tunnel.send(b"echo\n" + BLOCK)
        came = b""
        while len(came) < len(BLOCK):
            came += bytes(tunnel.recv(LIMIT_S))  # type: ignore[arg-type]
        assert came == BLOCK
    assert served.ask("GET", "x").status_code == 200
    refused = httpx.get(
        served.url("", served.tcp), headers={"Authorization": f"Bearer {served.token}"}
    )
    assert refused.status_code == 400


def test_a_port_of_this_machine_leads_to_the_task(served: Served) -> None:
    """`det task tunnel`, with a local end that has sent all and still listens."""
    local = free_port()
    words = [sys.executable, "-m", "windlass", "-m", served.cluster.url, "task", "tunnel"]
    environment = {**os.environ, **served.cluster.login_as()}
    command = [*words, served.task_id, f"{local}:{served.tcp}"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as tunnel:
        try:
            assert tunnel.stderr is not None
            told = tunnel.stderr.readline()
            assert told == f"127.0.0.1:{local} leads to {served.name(served.tcp)}\n"
            data = BLOCK * 50
            with socket.create_connection(("127.0.0.1", local), timeout=LIMIT_S) as here:
                sending = threading.Thread(target=here.sendall, args=(b"echo\n" + data,))
                sending.start()
                came = b""
                while len(came) < len(data):
                    came += here.recv(1 << 20)
                sending.join()
                here.shutdown(socket.SHUT_WR)
                assert here.recv(100) == b""
            assert came == data
        finally:
            tunnel.send_signal(signal.SIGINT)
    assert tunnel.returncode == 0


def test_an_agent_or_a_master_that_starts_again_serves_again(served: Served) -> None:
    cluster = served.cluster

    def serves() -> bool:
        try:
            return served.ask("GET", "x").status_code == 200
        except httpx.HTTPError:
            return False

    with served.socket(served.tcp) as tunnel:
        tunnel.send(b"echo\nhere")
        assert tunnel.recv(LIMIT_S) == b"here"
        cluster.kill_agent("node-1")
        with pytest.raises(ConnectionClosed) as closed:
            tunnel.recv(LIMIT_S)
    assert closed.value.rcvd is not None
    assert "agent node-1" in closed.value.rcvd.reason
    refused = served.ask("GET", "x")
    assert refused.status_code == 502
    assert "agent node-1 is not connected" in refused.json()["message"]
    cluster.start_agent("node-1", slots=1)
    eventually("the agent leads to the task again", serves)
    cluster.kill_master()
    cluster.start_master()
    eventually("the master leads to the task again", serves)


def test_a_task_that_is_over_serves_nothing(served: Served) -> None:
    """The last test of this file: it ends the task."""
    session = served.cluster.client.session
    summaries = session.get("/api/v1/tasks")["allocationIdToSummary"].values()
    (mine,) = [one for one in summaries if one["taskId"] == served.task_id]
    assert [(port["serviceId"], port["proxyTcp"]) for port in mine["proxyPorts"]] == [
        (served.name(served.http), False),
        (served.name(served.tcp), True),
        (served.name(served.sockets), False),
    ]
    session.post(f"/api/v1/commands/{served.task_id}/kill", {})
    eventually("it is gone", lambda: served.ask("GET", "x").status_code == 404)
