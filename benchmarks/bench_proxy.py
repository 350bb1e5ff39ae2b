"""What the proxy adds: small requests, large bodies and tunnels of TCP through the master, and directly.

    python -m benchmarks.bench_proxy [--requests 400] [--mib 256] [--streams 50] [--idle 500]

A real master and agent, a task that serves HTTP and TCP. Requests have a connection each, as the proxy's to the task
have. While bytes move the agent sends a heartbeat every 0.1 s: how late does the master take them? Clients, master,
agent and task share the cores of this machine, so on few cores the rates are those of all four together.
"""

from __future__ import annotations

import http.client
import os
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from benchmarks.proxy_load import MIB, SERVER, Target
from benchmarks.timed_heartbeats import MODULE, lateness_ms
from tests.real_cluster import RealCluster, eventually, free_port

BUDGET_P50_MS, BUDGET_P99_MS, BUDGET_MB_S = 3.0, 15.0, 60.0
BUDGET_LATE_MS = 250.0
BUDGET_IDLE_CORE = 0.05
WAYS = {
    "download": Target.download,
    "upload": Target.upload,
    "tunnel to the client": Target.receive,
    "tunnel to the task": Target.send,
}


@dataclass(frozen=True)
class Served:
    """Ports of the task: each directly, and through the master."""

    http: tuple[Target, Target]
    tcp: tuple[Target, Target]


def serving(cluster: RealCluster) -> Served:
    ports = free_port(), free_port()
    config = {
        "entrypoint": ["python3", "-c", SERVER, *map(str, ports)],
        "environment": {
            "proxy_ports": [
                {"proxy_port": ports[0]},
                {"proxy_port": ports[1], "proxy_tcp": True},
            ]
        },
        "resources": {"slots": 0},
    }
    session = cluster.client.session
    task_id = session.post("/api/v1/commands", {"config": config})["command"]["id"]
    at = urlsplit(cluster.url)

    def both(port: int) -> tuple[Target, Target]:
        path = f"/proxy/{task_id}:{port}/"
        master = str(at.hostname), at.port or 80
        return Target("127.0.0.1", port), Target(*master, path, str(session.token))

    served = Served(both(ports[0]), both(ports[1]))

    def answers() -> bool:
        try:
            served.http[1].download(0)
        except (OSError, AssertionError, http.client.HTTPException):
            return False
        return True

    eventually("the task serves", answers)
    return served


def latencies_ms(target: Target) -> float:
    begun = time.perf_counter()
    target.download(0)
    return (time.perf_counter() - begun) * 1000


class Processes:
    """The master and the agent, and what they have used: on a busy machine CPU time says more than rates do."""

    def __init__(self, cluster: RealCluster) -> None:
        (agent,) = (p for p in cluster.processes(word="agent") if "run" in p.cmdline())
        self._both = (psutil.Process(cluster.master_pid), agent)

    def used_s(self) -> tuple[float, float]:
        """CPU seconds of each so far."""
        master, agent = (sum(process.cpu_times()[:2]) for process in self._both)
        return master, agent

    def since_s(self, before: tuple[float, float]) -> tuple[float, float]:
        now = self.used_s()
        return now[0] - before[0], now[1] - before[1]


def print_latency(served: Served, requests: int, processes: Processes) -> None:
    direct, proxied = served.http
    before, after = [], []
    used = processes.used_s()
    for _ in range(requests):  # in turns, so that a busy moment meets both
        before.append(latencies_ms(direct))
        after.append(latencies_ms(proxied))
    before.sort()
    after.sort()
    p50 = statistics.median(after) - statistics.median(before)
    p99 = after[len(after) * 99 // 100] - before[len(before) * 99 // 100]
    print(
        f"small request: {p50:.2f} ms more (p50, {p50 / BUDGET_P50_MS:.2f} of the budget), "
        f"{p99:.2f} ms more (p99, {p99 / BUDGET_P99_MS:.2f} of it); "
        f"directly {statistics.median(before):.2f} ms"
    )
    master, agent = (1000 * seconds / requests for seconds in processes.since_s(used))
    print(f"  CPU of each: {master:.2f} ms of the master, {agent:.2f} ms of the agent")


def mb_s(way: str, target: Target, mib: int, streams: int) -> float:
    each = max(1, mib // streams)
    begun = time.perf_counter()
    with ThreadPoolExecutor(streams) as threads:
        list(threads.map(WAYS[way], [target] * streams, [each] * streams))
    return each * streams * MIB / 1e6 / (time.perf_counter() - begun)


def print_rates(
    served: Served, mib: int, streams: int, *, beats: Path, processes: Processes
) -> None:
    for way in WAYS:
        direct, proxied = served.tcp if way.startswith("tunnel") else served.http
        for count in (1, streams):
            plain = mb_s(way, direct, mib, count)
            since, used = time.monotonic(), processes.used_s()
            through = mb_s(way, proxied, mib, count)
            busiest = max(*processes.since_s(used), 0.001)
            late = lateness_ms(beats, since) or [0.0]
            print(
                f"{way:20s} {count:3d} streams: {through:5.0f} MB/s ({through / BUDGET_MB_S:.2f} of the budget), "
                f"directly {plain:5.0f} ({through / plain:.3f} of it); "
                f"{max(1, mib // count) * count * MIB / 1e6 / busiest:4.0f} MB per CPU second of the busier end; "
                f"heartbeats at most {late[-1]:.0f} ms late ({late[-1] / BUDGET_LATE_MS:.2f} of the budget)"
            )


def cores(processes: Processes, seconds: float) -> float:
    """What both use."""
    before, begun = processes.used_s(), time.perf_counter()
    time.sleep(seconds)
    return sum(processes.since_s(before)) / (time.perf_counter() - begun)


def print_idle(served: Served, tunnels: int, seconds: float, processes: Processes) -> None:
    without = cores(processes, seconds)
    with ExitStack() as stack:
        for _ in range(tunnels):
            stack.enter_context(closing(served.tcp[1].connect())).write(b"idle 0\n")
        beside = cores(processes, seconds)
    print(
        f"{tunnels} idle tunnels: master and agent use {beside:.3f} of a core, {without:.3f} without them: "
        f"{beside - without:.3f} more ({(beside - without) / BUDGET_IDLE_CORE:.2f} of the budget)"
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--requests", type=int, default=sized(400, 5))
    parser.add_argument("--mib", type=int, default=sized(256, 2))
    parser.add_argument("--streams", type=int, default=sized(50, 2))
    parser.add_argument("--idle", type=int, default=sized(500, 5), help="tunnels that do nothing")
    parser.add_argument("--seconds", type=float, default=sized(20.0, 0.5), help="of doing nothing")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print_calibration()
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    config = {"resource_pools": [{"pool_name": "default"}], "log": {"level": "warn"}}
    with tempfile.TemporaryDirectory() as folder:
        beats = Path(folder) / "beats"
        timed = (sys.executable, "-m", MODULE, str(beats))
        cluster = RealCluster(Path(folder) / "cluster", config)
        cluster.master_via = timed
        with cluster:
            cluster.start_agent("node", slots=1, via=timed)
            served = serving(cluster)
            processes = Processes(cluster)
            print_latency(served, given.requests, processes)
            print_rates(served, given.mib, given.streams, beats=beats, processes=processes)
            print_idle(served, given.idle, given.seconds, processes)


if __name__ == "__main__":
    main()
