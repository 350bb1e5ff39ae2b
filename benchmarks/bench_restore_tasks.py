"""A master that is killed and started while interactive tasks are open: until all of them answer through the proxy.

    python -m benchmarks.bench_restore_tasks [--tasks 200]

Budget: 5 s for 200 tasks, from the start of the master's process. One real agent, real tasks: each a process of its own
that waits; the first also serves HTTP, at a port that all of them have as theirs, so that each leads there by its own
name. The peer is the same cluster with one task.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from tests.real_cluster import RealCluster, eventually, free_port

BUDGET_S, BUDGET_TASKS = 5.0, 200
PATIENCE_S = 900.0
"""To start so many processes may take long on a busy machine: that is not what is measured."""


def launch(cluster: RealCluster, port: int, *, serves: bool = False) -> str:
    """The name of its service."""
    serve = ["python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    config = {
        "entrypoint": serve if serves else ["sleep", "86400"],
        "environment": {"proxy_ports": [{"proxy_port": port, "unauthenticated": True}]},
        "resources": {"slots": 0},
    }
    made = cluster.client.session.post("/api/v1/commands", {"config": config})
    return f"{made['command']['id']}:{port}"


def answers(cluster: RealCluster, name: str) -> bool:
    """Whether the service does, whatever it says: those that are served by another know no such path."""
    try:
        with closing(socket.create_connection(("127.0.0.1", cluster.port), timeout=60)) as one:
            head = f"HEAD /proxy/{name}/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            one.sendall(head.encode())
            said = b""
            while data := one.recv(65536):
                said += data
    except OSError:
        return False
    return b"server: SimpleHTTP" in said.replace(b"Server:", b"server:")


def wait_for_all(cluster: RealCluster, names: Sequence[str]) -> None:
    left = list(names)

    def nobody_is_left() -> bool:
        with ThreadPoolExecutor(8) as threads:
            told = list(threads.map(lambda name: answers(cluster, name), left))
        left[:] = [name for name, answered in zip(left, told, strict=True) if not answered]
        return not left

    eventually("all tasks answer", nobody_is_left, patience_s=PATIENCE_S)


def restart(cluster: RealCluster, names: Sequence[str]) -> tuple[float, float]:
    """Seconds until the master answers, and until all tasks do."""
    cluster.kill_master()
    begun = time.perf_counter()
    cluster.start_master()
    serving = time.perf_counter() - begun
    wait_for_all(cluster, names)
    return serving, time.perf_counter() - begun


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=sized(BUDGET_TASKS, 3))
    tasks = parser.parse_args().tasks
    print_calibration()
    pool = {"pool_name": "default", "max_aux_containers_per_agent": tasks}
    config = {"resource_pools": [pool], "log": {"level": "warn"}}
    with (
        tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder,
        RealCluster(Path(folder), config) as cluster,
    ):
        cluster.start_agent("node", slots=1)
        port = free_port()
        names = [launch(cluster, port, serves=True)]
        wait_for_all(cluster, names)
        _, alone = restart(cluster, names)
        names += [launch(cluster, port) for _ in range(tasks - 1)]
        wait_for_all(cluster, names)
        print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        serving, all_answer = restart(cluster, names)
    print(f"{len(names)} tasks: the master answers after {serving:.2f} s")
    print(
        f"all of them {all_answer - serving:.2f} s later, after {all_answer:.2f} s "
        f"({all_answer / BUDGET_S:.2f} of the budget of {BUDGET_S:.0f} s); "
        f"one task alone after {alone:.2f} s ({all_answer / alone:.1f} times)"
    )


if __name__ == "__main__":
    main()
