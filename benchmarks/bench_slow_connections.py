"""What ten users notice of 2,000 connections that hang: half-sent requests, unread replies, idle and half-open ones.

    python -m benchmarks.bench_slow_connections [--slow 2000]

Goal: the 99th percentile of their calls, each on a new connection, under 500 ms. Peer: no crowd.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
from pathlib import Path

from benchmarks.arguments import arguments, sized
from tests.integration.security.slow_crowd import honest_users, slow_crowd
from tests.real_cluster import RealCluster

GOAL_MS = 500.0
CONFIG = {
    "connections": {"header_timeout": "10m"},
}


def p99_ms(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1000


async def measure(cluster: RealCluster, slow: int) -> None:
    token = str(cluster.client.session.token)
    await honest_users(cluster.port, token, users=10, calls=5)
    alone = await honest_users(cluster.port, token, users=10, calls=50)
    async with slow_crowd(cluster.port, token, slow) as crowd:
        await honest_users(
            cluster.port, token, users=10, calls=5
        )  # until the last of them has come
        beside = await honest_users(cluster.port, token, users=10, calls=50)
        print(f"slow connections: {slow}, of which hang to the end: {crowd.hanging()}")
    print(f"p99 of ten users alone        {p99_ms(alone):7.1f} ms")
    print(f"p99 of ten users beside them  {p99_ms(beside):7.1f} ms   (goal {GOAL_MS:.0f} ms)")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--slow", type=int, default=sized(2000, 3))
    slow = parser.parse_args().slow
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with (
        tempfile.TemporaryDirectory() as folder,
        RealCluster(Path(folder), CONFIG) as cluster,
    ):
        asyncio.run(measure(cluster, slow))


if __name__ == "__main__":
    main()
