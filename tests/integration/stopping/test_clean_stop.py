"""SIGTERM ends a master cleanly, whatever goes on: exit code 0, files complete, and work that goes on afterwards."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from master.server.loop_watch import HELD
from tests.integration.stopping.gated import Gated
from tests.real_cluster import PATIENCE_S, RealCluster, embedded_pool, eventually
from tests.stores import read_rows
from windlass.base.errors import WindlassError
from windlass.sdk.client import Client
from windlass.sdk.session import Session

BUSY = 4
"""Threads that ask without a pause."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    with RealCluster(tmp_path, {"resource_pools": [embedded_pool()]}) as cluster:
        yield cluster


def stop(cluster: RealCluster, number: int = signal.SIGTERM) -> int:
    """The exit code."""
    assert cluster.master is not None
    cluster.master.send_signal(number)
    return cluster.master.wait(timeout=PATIENCE_S)


def complaints(cluster: RealCluster) -> list[str]:
    """What the master logged as wrong. How long steps of its loop may take is the cluster's to check."""
    wrong = [e["event"] for e in cluster.events() if e["level"] not in ("debug", "info")]
    lines = cluster.log().splitlines()
    return [event for event in wrong if event != HELD] + [
        line for line in lines if "Traceback" in line or "never awaited" in line
    ]


@contextmanager
def load(cluster: RealCluster) -> Iterator[None]:
    """Readers that never pause, and one who follows a log, until the master goes."""
    over = threading.Event()

    def ask(work: Callable[[Client], object]) -> None:
        with Session(cluster.url) as session, suppress(WindlassError, OSError):
            session.login("determined", cluster.password)
            while not over.is_set():
                work(Client(session))

    def follow(client: Client) -> None:
        for _ in client.logs(1, follow=True):
            pass

    jobs: list[Callable[[Client], object]] = [*[Client.experiments] * BUSY, follow]
    threads = [threading.Thread(target=ask, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(timeout=PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads), "a request never ended"


def check_files(cluster: RealCluster) -> None:
    for name in ("windlass.db", "logs.db"):
        wal = cluster.data_dir / f"{name}-wal"
        assert not wal.exists() or wal.stat().st_size == 0, f"{name} is not whole without its WAL"
    [leader] = read_rows(cluster.data_dir / "windlass.db", "leader", "id")
    assert leader["master_id"] == "", "the lease was not given back"


def test_a_loaded_master_stops_cleanly_and_its_work_goes_on(cluster: RealCluster) -> None:
    gated = Gated(cluster)
    experiment = gated.submit()
    eventually("both trials report", lambda: gated.reports(experiment))
    with load(cluster):
        assert stop(cluster) == 0
    assert complaints(cluster) == []
    check_files(cluster)
    cluster.start_master()
    gated.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert [t["restarts"] for t in cluster.trials(experiment)] == [0, 0]
    rows = read_rows(cluster.data_dir / "windlass.db", "allocation", "id")
    assert [r["run_id"] for r in rows] == [1, 1], "the same runs went on"


def test_ctrl_c_is_the_same(cluster: RealCluster) -> None:
    assert stop(cluster, signal.SIGINT) == 0
    check_files(cluster)


@pytest.mark.slow
def test_with_postgresql(tmp_path: Path, postgres_url: str) -> None:
    config = {"resource_pools": [embedded_pool()], "db": {"url": postgres_url}}
    with RealCluster(tmp_path, config) as cluster:
        gated = Gated(cluster)
        experiment = gated.submit()
        eventually("both trials report", lambda: gated.reports(experiment))
        with load(cluster):
            assert stop(cluster) == 0
        assert complaints(cluster) == []
        cluster.start_master()
        gated.open()
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"


class Half(ExitStack):
    """A login whose body has come only in part."""

    def __init__(self, cluster: RealCluster) -> None:
        super().__init__()
        self._body = json.dumps({"username": "determined", "password": cluster.password}).encode()
        self._socket = self.enter_context(socket.create_connection(("127.0.0.1", cluster.port)))
        head = (
            f"POST /api/v1/auth/login HTTP/1.1\r\nHost: 127.0.0.1:{cluster.port}\r\n"
            f"Content-Length: {len(self._body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + self._body[:10])

    def rest(self) -> str:
        """The status line of the answer."""
        self._socket.settimeout(PATIENCE_S)
        self._socket.sendall(self._body[10:])
        return self._socket.makefile().readline().strip()


def asked_to_stop(cluster: RealCluster) -> None:
    """Returns once the master no longer accepts connections."""
    assert cluster.master is not None
    cluster.master.send_signal(signal.SIGTERM)

    def refuses() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", cluster.port)) != 0

    eventually("the port is closed", refuses)


def test_a_request_under_way_is_answered(cluster: RealCluster) -> None:
    with Half(cluster) as request:
        asked_to_stop(cluster)
        assert request.rest() == "HTTP/1.1 200 OK"
    assert cluster.master is not None
    assert cluster.master.wait(timeout=PATIENCE_S) == 0


def test_a_request_that_never_ends_is_cut_after_the_grace(tmp_path: Path) -> None:
    with RealCluster(tmp_path, {"shutdown_grace": "1s"}) as cluster, Half(cluster):
        assert stop(cluster) == 0
        check_files(cluster)


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with RealCluster(tmp_path, {"shutdown_grace": "1h"}) as cluster, Half(cluster):
        asked_to_stop(cluster)
        assert stop(cluster) == -signal.SIGTERM
        cluster.start_master()  # nothing is lost by it


def test_agents_are_told_and_come_back_at_once(tmp_path: Path) -> None:
    """They do not wait until their connection is silent for long, and the pool does not wait for them."""
    with RealCluster(tmp_path, {}) as cluster:
        cluster.start_agent("a1")
        assert stop(cluster) == 0
        told = "connection to the master lost: received 1012 (service restart)"
        eventually("the agent knows", lambda: told in (cluster.folder / "a1.log").read_text())
        cluster.start_master()
        eventually("the agent is back", lambda: "a1" in cluster.agents(), patience_s=15)


def test_the_service_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with RealCluster(tmp_path, {}) as cluster:
            assert manager.recv(100) == b"READY=1"
            assert stop(cluster) == 0
            assert manager.recv(100) == b"STOPPING=1"
