"""What the proxy adds: small requests and a large answer of a task, through the master and directly.

    python -m benchmarks.bench_proxy [--requests 400] [--mib 256] [--streams 50]

A real master and agent, a task that serves HTTP. Requests have a connection each, as the proxy's to the task have.
"""

from __future__ import annotations

import http.client
import socket
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.arguments import arguments, sized
from tests.real_cluster import RealCluster, eventually

BUDGET_P50_MS, BUDGET_P99_MS, BUDGET_MB_S = 3.0, 15.0, 60.0
SERVER = """
import asyncio, sys
BLOCK = bytes(1 << 20)

async def answer(reader, writer):
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    mib = int(head.split(b"mib=")[1].split()[0])
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % (mib << 20))
    for _ in range(mib):
        writer.write(BLOCK)
        await writer.drain()
    writer.close()

async def main():
    async with await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
"""


class Target:
    """Where the task is asked: its own port, or the master."""

    def __init__(self, host: str, port: int, path: str, token: str = "") -> None:
        self._host, self._port, self._path = host, port, path
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, mib: int) -> int:
        """The bytes of the answer."""
        with closing(http.client.HTTPConnection(self._host, self._port, timeout=60)) as connection:
            connection.request("GET", f"{self._path}?mib={mib}", headers=self._headers)
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            size = 0
            while block := reply.read(1 << 18):
                size += len(block)
            return size

    def latencies_ms(self, count: int) -> list[float]:
        found = []
        for _ in range(count):
            begun = time.perf_counter()
            self.ask(0)
            found.append((time.perf_counter() - begun) * 1000)
        return sorted(found)

    def mb_s(self, mib: int, streams: int) -> float:
        begun = time.perf_counter()
        with ThreadPoolExecutor(streams) as threads:
            sizes = list(threads.map(self.ask, [mib // streams] * streams))
        assert sum(sizes) == (mib // streams) * streams << 20
        return sum(sizes) / 1e6 / (time.perf_counter() - begun)


def serving(cluster: RealCluster) -> tuple[Target, Target]:
    """(directly, through the master)."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    config = {
        "entrypoint": ["python3", "-c", SERVER, str(port)],
        "environment": {"proxy_ports": [{"proxy_port": port}]},
        "resources": {"slots": 0},
    }
    session = cluster.client.session
    task_id = session.post("/api/v1/commands", {"config": config})["command"]["id"]
    at = urlsplit(cluster.url)
    direct = Target("127.0.0.1", port, "/")
    path = f"/proxy/{task_id}:{port}/"
    proxied = Target(str(at.hostname), at.port or 80, path, str(session.token))

    def answers() -> bool:
        try:
            return proxied.ask(0) == 0
        except (OSError, AssertionError, http.client.HTTPException):
            return False

    eventually("the task serves", answers)
    return direct, proxied


def main(requests: int, mib: int, streams: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = {"resource_pools": [{"pool_name": "default"}]}
        with RealCluster(Path(folder), config) as cluster:
            cluster.start_agent("node", slots=1)
            direct, proxied = serving(cluster)
            before, after = direct.latencies_ms(requests), proxied.latencies_ms(requests)
            p50 = statistics.median(after) - statistics.median(before)
            p99 = after[len(after) * 99 // 100] - before[len(before) * 99 // 100]
            budget = f"budget {BUDGET_P50_MS:g} and {BUDGET_P99_MS:g}"
            print(f"small request: {p50:.2f} ms more (p50), {p99:.2f} ms more (p99); {budget}")
            for count in (1, streams):
                plain, through = direct.mb_s(mib, count), proxied.mb_s(mib, count)
                print(
                    f"{count} streams: {through:.0f} MB/s, directly {plain:.0f} ({through / plain:.2f} of it); "
                    f"budget {BUDGET_MB_S:g}"
                )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--requests", type=int, default=sized(400, 5))
    parser.add_argument("--mib", type=int, default=sized(256, 2))
    parser.add_argument("--streams", type=int, default=sized(50, 2))
    given = parser.parse_args()
    main(given.requests, given.mib, given.streams)
