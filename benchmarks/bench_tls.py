"""What TLS costs the master in CPU: metric reports on kept connections, as tasks send them, and calls with a connection
each, as the published command line makes them. The real server in this process, the caller in another one.

    python -m benchmarks.bench_tls [--reports 2000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import ssl
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from benchmarks.arguments import arguments, sized
from master.tls.serving import ServedTls, TlsFiles
from tests.certificates import Authority
from tests.fakes.api_world import ApiWorld, api_world
from tests.integration.security.agent_sockets import Served, served
from windlass.base.clock import SystemClock

BUDGET = 0.20
"""Of the CPU of a report."""


def call(host: str, port: int, root: str, path: str, token: str, count: int, kept: bool) -> None:
    """The other process."""
    context = ssl.create_default_context(cafile=root) if root else None
    inner = {"avgMetrics": {"loss": 0.5, "accuracy": 0.5}, "batchMetrics": None}
    connection: http.client.HTTPConnection | None = None
    for step in range(count):
        if connection is None:
            connection = (
                http.client.HTTPSConnection(host, port, context=context)
                if context
                else http.client.HTTPConnection(host, port)
            )
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if kept:
            report = {"trialId": 1, "trialRunId": 1, "stepsCompleted": step + 1, "metrics": inner}
            body = json.dumps({"group": "training", "metrics": report})
            connection.request("POST", path, body, headers)
        else:
            connection.request("GET", "/info", headers=headers)
        reply = connection.getresponse()
        content = reply.read()
        assert reply.status == 200, content
        if not kept:
            connection.close()
            connection = None


async def cost(at: Served, root: str, path: str, token: str, count: int, kept: bool) -> float:
    """Milliseconds of the master's CPU for each."""
    begun = time.process_time()
    words = [at.host, str(at.port), root, path, token, str(count), "kept" if kept else ""]
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__)), "--call", *words
    )
    assert await child.wait() == 0
    return (time.process_time() - begun) / count * 1000


async def measure(world: ApiWorld, folder: Path, count: int, rounds: int) -> bool:
    await world.login()
    await world.add_agent()
    experiment = await world.create()
    allocation = await world.run_of(experiment)
    path, token = (
        f"/api/v1/trials/{world.trial_id(experiment)}/metrics",
        world.task_token(allocation),
    )
    authority = Authority(folder / "tls")
    issued = authority.issue()
    tls = ServedTls(TlsFiles(cert=issued.cert, key=issued.key), SystemClock())
    within = True
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(served(world))
        secure = await stack.enter_async_context(served(world, tls))
        for name, kept, calls in (
            ("report on a kept connection", True, count),
            ("call with a connection of its own", False, count // 4),
        ):
            without, with_tls = [], []
            for _ in range(rounds):
                without.append(await cost(plain, "", path, token, calls, kept))
                with_tls.append(await cost(secure, str(authority.root), path, token, calls, kept))
            before, after = statistics.median(without), statistics.median(with_tls)
            more = after / before - 1
            print(f"{name:34} {before:5.2f} ms CPU, with TLS {after:5.2f} ms: {more:+.0%}")
            within = within and (not kept or more <= BUDGET)
    return within


async def main(count: int, rounds: int) -> bool:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with tempfile.TemporaryDirectory() as folder:
        async with api_world(Path(folder)) as world:
            return await measure(world, Path(folder), count, rounds)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--reports", type=int, default=sized(2000, 8))
    parser.add_argument("--rounds", type=int, default=sized(5, 1))
    parser.add_argument("--call", nargs=7, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.call:
        host, port, root, path, token, count, kept = given.call
        call(host, int(port), root, path, token, int(count), bool(kept))
        sys.exit()
    within = asyncio.run(main(given.reports, given.rounds))
    print("within the budget" if within else f"over the budget of {BUDGET:.0%} for reports")
