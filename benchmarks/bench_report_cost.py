"""What one call of a task costs the master in CPU: a metric report, a progress report, a long poll that is answered
at once, a batch of log lines. In process, through the whole ASGI application and a store in memory.

    python -m benchmarks.bench_report_cost [--calls 2000] [--profile]
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import structlog
from starlette.types import ASGIApp, Message

from benchmarks.arguments import arguments, sized
from tests.fakes.api_world import ApiWorld, api_world

BUDGET_MS = 1.0


async def call(app: ASGIApp, method: str, path: str, token: str, body: bytes, query: bytes) -> None:
    """As uvicorn would, without its parsing."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        "method": method,
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [
            (b"host", b"127.0.0.1:8080"),
            (b"user-agent", b"python-requests/2.32"),
            (b"accept", b"*/*"),
            (b"authorization", b"Bearer " + token.encode()),
            (b"content-length", str(len(body)).encode()),
        ],
        "state": {},
    }
    sent: list[Message] = []
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent


async def measure(world: ApiWorld, calls: int) -> dict[str, float]:
    await world.login()
    await world.add_agent()
    experiment = await world.create()
    allocation = await world.run_of(experiment)
    token, trial = world.task_token(allocation), world.trial_id(experiment)

    def metrics(step: int) -> bytes:
        inner = {"avgMetrics": {"loss": 1.0 / step, "accuracy": 0.5}, "batchMetrics": None}
        report = {
            "trialId": trial,
            "trialRunId": 1,
            "stepsCompleted": step,
            "reportTime": "2026-01-01T00:00:00+00:00",
            "metrics": inner,
        }
        return json.dumps({"group": "training", "metrics": report}).encode()

    line = {"taskId": allocation.task_id, "log": "epoch 3\n", "level": "LOG_LEVEL_INFO"}
    logs = json.dumps({"logs": [line] * 10}).encode()
    progress = json.dumps({"progress": 0.5, "isRaw": True}).encode()
    trials, poll = f"/api/v1/trials/{trial}", f"/api/v1/allocations/{allocation.id}/signals"
    kinds: dict[str, Callable[[int], tuple[str, str, bytes, bytes]]] = {
        "metric report": lambda n: ("POST", f"{trials}/metrics", metrics(n + 1), b""),
        "progress": lambda n: ("POST", f"{trials}/progress", progress, b""),
        "10 log lines": lambda n: ("POST", "/api/v1/task/logs", logs, b""),
        "preemption poll": lambda n: ("GET", f"{poll}/preemption", b"", b"timeout_seconds=0"),
    }
    costs = {}
    for name, make in kinds.items():
        begun = time.process_time()
        for n in range(calls):
            method, path, body, query = make(n)
            await call(world.app, method, path, token, body, query)
        costs[name] = (time.process_time() - begun) / calls * 1000
    return costs


async def main(calls: int, profile: bool) -> bool:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with tempfile.TemporaryDirectory() as folder:
        async with api_world(Path(folder)) as world:
            profiler = cProfile.Profile()
            if profile:
                profiler.enable()
            costs = await measure(world, calls)
            if profile:
                profiler.disable()
                pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    for name, cost in costs.items():
        print(f"{name:16} {cost:6.2f} ms CPU")
    return costs["metric report"] <= BUDGET_MS


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--calls", type=int, default=sized(2000, 3))
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    within = asyncio.run(main(given.calls, given.profile))
    print("within the budget" if within else f"over the budget of {BUDGET_MS} ms")
