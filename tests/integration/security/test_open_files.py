"""A master that has no file left for one more connection: it lives, does not spin, and serves again afterwards."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tests.real_cluster import RealCluster, eventually

SPARE_FILES = 20
CALLERS = 200
ACCEPT_ERROR = "out of system resource"


@contextmanager
def files_left(pid: int, spare: int) -> Iterator[None]:
    """That process may open so many files more."""
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    few = psutil.Process(pid).num_fds() + spare
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, usual[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)


@contextmanager
def callers(port: int, count: int) -> Iterator[None]:
    """Connections that say nothing; more than the master accepts wait in the backlog."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        yield


def cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def test_a_master_without_files_for_connections_waits_for_them(tmp_path: Path) -> None:
    # Nobody is cut while the test looks on: the files stay taken.
    config = {"connections": {"header_timeout": "10m"}}
    with RealCluster(tmp_path, config) as cluster:
        assert cluster.get("/api/v1/experiments")["experiments"] == []
        pid = cluster.master_pid

        def accept_errors() -> int:
            return cluster.log().count(ACCEPT_ERROR)

        with files_left(pid, SPARE_FILES):
            with callers(cluster.port, CALLERS):
                eventually("the files are used up", lambda: ACCEPT_ERROR in cluster.log())
                began, told, used = time.monotonic(), accept_errors(), cpu_seconds(pid)
                eventually("it tries again", lambda: accept_errors() >= told + 2)
                watched_s = time.monotonic() - began
                assert accept_errors() - told <= watched_s + 1
                assert cpu_seconds(pid) - used < watched_s / 2
            # The callers have gone, and there are still as few files.
            assert cluster.get("/api/v1/experiments")["experiments"] == []
        assert cluster.master is not None
        assert cluster.master.poll() is None
