"""Attacks on a real master over real sockets: passwords, pages of others, and bodies that nobody asked for."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real_cluster import RealCluster
from windlass.sdk.wire import hash_password

LOGIN = "/api/v1/auth/login"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("doors"), {}) as cluster:
        yield cluster


def ask(
    cluster: RealCluster,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, body=content, headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def login(
    cluster: RealCluster, password: str, user: str = "determined", **headers: str
) -> tuple[int, str]:
    body = {"username": user, "password": hash_password(password), "isHashed": True}
    return ask(cluster, "POST", LOGIN, body, headers)


def test_there_is_no_empty_password(cluster: RealCluster) -> None:
    for user in ("determined", "admin", "nobody"):
        status, said = login(cluster, "", user)
        assert (status, "the empty password is not accepted" in said) == (401, True)
    assert login(cluster, cluster.password)[0] == 200


def test_a_proxy_on_this_machine_is_not_this_machine(cluster: RealCluster) -> None:
    """Even where the empty password is allowed: the tests of the API have that. Here: nobody is believed."""
    status, _ = login(cluster, "", **{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https"})
    assert status == 401
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
    body = {"username": "determined", "password": cluster.password}
    connection.request("POST", LOGIN, json.dumps(body), {"X-Forwarded-Proto": "https"})
    cookie = str(connection.getresponse().getheader("set-cookie"))
    connection.close()
    assert "secure" not in cookie.lower(), "a stranger's word for the scheme is not taken"


def test_a_page_of_somebody_else_changes_nothing(cluster: RealCluster) -> None:
    cookie = {"Cookie": f"auth={cluster.client.session.token}"}
    url = f"http://127.0.0.1:{cluster.port}"
    for headers, status in (
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example", "Content-Type": "application/json"}, 403),
        ({"Origin": url, "Content-Type": "text/plain"}, 403),
        ({"Content-Type": "application/json"}, 403),
        ({"Origin": url, "Content-Type": "application/json"}, 200),
    ):
        found, said = ask(
            cluster, "PATCH", "/api/v1/users/2", {"displayName": "D"}, {**cookie, **headers}
        )
        assert found == status, (headers, said)


def test_a_large_body_of_a_stranger_is_answered_and_not_taken_in(cluster: RealCluster) -> None:
    for path in ("/api/v1/experiments", "/api/v1/trials/1/metrics", LOGIN):
        with socket.create_connection(("127.0.0.1", cluster.port), timeout=60) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n"
            connection.sendall(head.encode() + b"{")
            answer = connection.recv(65536)
            assert answer.split(b" ", 2)[1] == (b"413" if path == LOGIN else b"401"), answer
            while chunk := connection.recv(65536):
                answer += chunk
        assert b"connection: close" in answer.lower()


@pytest.mark.slow
def test_a_flood_of_guesses_keeps_nobody_out(cluster: RealCluster) -> None:
    """From one address, for one account, with hashes that take their time; the owner comes from another address."""
    over = threading.Event()

    def guess() -> None:
        while not over.is_set():
            assert login(cluster, "wrong")[0] in (401, 429)

    with ThreadPoolExecutor(20) as attackers:
        guesses = [attackers.submit(guess) for _ in range(20)]
        try:
            for _ in range(5):
                status, said = login_from(cluster, "127.0.0.2")
                assert status == 200, said
            assert not any(one.done() for one in guesses), "the flood went on meanwhile"
        finally:
            over.set()
        for one in guesses:
            one.result()


def login_from(cluster: RealCluster, address: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(
        "127.0.0.1", cluster.port, timeout=60, source_address=(address, 0)
    )
    body = {"username": "determined", "password": cluster.password}
    connection.request("POST", LOGIN, json.dumps(body))
    response = connection.getresponse()
    said = response.read().decode()
    connection.close()
    return response.status, said
