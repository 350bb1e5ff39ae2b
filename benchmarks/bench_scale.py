"""A real master over HTTP and WebSockets on one core; pretended agents, trials and people on the other.

One search, of which as many trials run as there are slots: each keeps a long poll open and reports metrics every 10 s.
Ten people read lists. Then the master is killed and started again, and at last the experiment is killed. Times depend
on the machine (see the calibration); how they grow with the number of live trials, and CPU per report, hardly do.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil
import yaml

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import slower
from benchmarks.scale_load import Agent, Http, Load

SLOTS = 8
PEOPLE = 10
STEADY_S = sized(30.0, 1.0)
LIMIT_S = 300.0
"""A phase that takes longer counts as failed."""
PASSWORD = "of the benchmark"  # noqa: S105
WINDLASS = str(Path(sys.executable).with_name("windlass"))
BUDGETS = {
    "started_s": 30.0,
    "report_p99_ms": 250.0,
    "read_p99_ms": 100.0,
    "cpu_per_report_ms": 1.0,
    "memory_mib": 2048.0,
    "restart_s": 5.0,
    "kill_told_s": 10.0,
}


@dataclass(kw_only=True)
class Row:
    """One size. NaN: not reached within the limit."""

    live: int
    started_s: float = math.nan
    reports_a_s: float = math.nan
    report_p50_ms: float = math.nan
    report_p99_ms: float = math.nan
    read_p99_ms: float = math.nan
    failures: int = 0
    cpu_per_report_ms: float = math.nan
    """All CPU of the master in the steady phase, reads and heartbeats included, by the number of reports."""
    master_busy: float = math.nan
    """Part of one core."""
    memory_mib: float = math.nan
    restart_s: float = math.nan
    kill_told_s: float = math.nan


class MasterProcess:
    """A real master on its own core."""

    def __init__(self, folder: Path, core: int | None) -> None:
        self._folder = folder
        self._core = core
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._config = folder / "master.yaml"
        config = {
            "port": self.port,
            "log": {"level": "error"},
            "security": {"initial_user_password": PASSWORD},
            "resource_pools": [{"pool_name": "default", "agent_reconnect_wait": "60s"}],
        }
        self._config.write_text(yaml.safe_dump(config))
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        with (self._folder / "master.log").open("ab") as log:
            self.process = subprocess.Popen(
                [WINDLASS, "master", "run", "-c", str(self._config), "--data-dir", str(self._data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if self._core is not None:
            os.sched_setaffinity(self.process.pid, {self._core})

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    async def serving(self) -> None:
        http = Http()
        while True:
            if self.process.poll() is not None:
                raise RuntimeError((self._folder / "master.log").read_text()[-3000:])
            try:
                status, _ = await http.ask(("127.0.0.1", self.port), "GET", "/info", "")
            except OSError:
                status = 0
            if status == 200:
                http.close()
                return
            await asyncio.sleep(0.02)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()


async def measure(live: int, steady_s: float, cores: tuple[int, int] | None) -> Row:
    row = Row(live=live)
    with tempfile.TemporaryDirectory(prefix="windlass-scale-") as name:
        master = MasterProcess(Path(name), cores[0] if cores else None)
        master.start()
        load = Load(master.port, seed=live)
        try:
            await master.serving()
            await _phases(row, master, load, steady_s)
        finally:
            await load.close()
            master.stop()
    return row


async def _phases(row: Row, master: MasterProcess, load: Load, steady_s: float) -> None:
    admin = await login(load)
    agents, token = -(-row.live // SLOTS), await join_token(load, admin)
    for number in range(agents):
        load.spawn(Agent(load, f"agent-{number:04}", slots=SLOTS, token=token).run())
    if not await load.until(lambda: load.connected == agents, LIMIT_S):
        return
    begun = time.perf_counter()
    experiment = await submit(load, admin, row.live)
    reached = await load.until(lambda: len(load.figures.started) >= row.live, LIMIT_S)
    if not reached:
        return
    row.started_s = load.figures.started[row.live - 1] - begun
    await _steady(row, master, load, admin, experiment, steady_s)
    await _restart(row, master, load, agents)
    await _kill_all(row, load, admin, experiment)


async def _steady(
    row: Row, master: MasterProcess, load: Load, admin: str, experiment: int, steady_s: float
) -> None:
    lists = [
        "/api/v1/experiments?limit=20",
        f"/api/v1/experiments/{experiment}",
        f"/api/v1/experiments/{experiment}/trials?limit=20",
        "/api/v1/agents?limit=20",
        "/api/v1/resource-pools",
        "/api/v1/job-queues-v2?resourcePool=default&limit=20",
    ]
    for _ in range(PEOPLE):
        load.spawn(load.person(admin, lists))
    await asyncio.sleep(sized(10.0, 1.0))  # every trial has reported, and everybody has read
    process = psutil.Process(master.process.pid)
    before, begun = cpu_s(process), time.perf_counter()
    load.figures.measuring = True
    await asyncio.sleep(steady_s)
    load.figures.measuring = False
    seconds, cpu = time.perf_counter() - begun, cpu_s(process) - before
    reports, reads = sorted(load.figures.reports), sorted(load.figures.reads)
    row.failures = load.figures.failures
    row.master_busy = cpu / seconds
    row.memory_mib = process.memory_info().rss / 2**20
    if reports:
        row.reports_a_s = len(reports) / seconds
        row.report_p50_ms = 1000 * reports[len(reports) // 2]
        row.report_p99_ms = 1000 * reports[int(len(reports) * 0.99)]
        row.cpu_per_report_ms = 1000 * cpu / len(reports)
    if reads:
        row.read_p99_ms = 1000 * reads[int(len(reads) * 0.99)]


async def _restart(row: Row, master: MasterProcess, load: Load, agents: int) -> None:
    master.kill()
    begun = time.perf_counter()
    master.start()
    await master.serving()
    row.restart_s = time.perf_counter() - begun
    await load.until(lambda: load.connected == agents, LIMIT_S)


async def _kill_all(row: Row, load: Load, admin: str, experiment: int) -> None:
    load.figures.killed.clear()
    running = len(load.trials)
    begun = time.perf_counter()
    await _ask(load, "POST", f"/api/v1/experiments/{experiment}/kill", admin)
    if await load.until(lambda: len(load.figures.killed) >= running, LIMIT_S):
        row.kill_told_s = load.figures.killed[running - 1] - begun


async def login(load: Load) -> str:
    body = {"username": "admin", "password": PASSWORD, "isHashed": False}
    return str((await _ask(load, "POST", "/api/v1/auth/login", "", body))["token"])


async def join_token(load: Load, admin: str) -> str:
    body = {"pool": "default", "anyNumber": True}
    return str((await _ask(load, "POST", "/api/v1/windlass/join-tokens", admin, body))["token"])


async def submit(load: Load, token: str, live: int) -> int:
    trials = live * 5 // 4
    config = {
        "name": "scale",
        "entrypoint": "python3 train.py",
        "searcher": {
            "name": "random",
            "metric": "loss",
            "max_trials": trials,
            "max_concurrent_trials": trials,
        },
        "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
        "resources": {"slots_per_trial": 1},
    }
    body = {"config": yaml.safe_dump(config), "activate": True, "projectId": 1}
    answer = await _ask(load, "POST", "/api/v1/experiments", token, body)
    return int(answer["experiment"]["id"])


async def _ask(
    load: Load, method: str, path: str, token: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    http = Http()
    try:
        status, answer = await http.ask(
            load.address, method, path, token, orjson.dumps(body) if body is not None else b""
        )
    finally:
        http.close()
    if status != 200:
        raise RuntimeError(f"{method} {path}: HTTP {status} {answer[:500]!r}")
    return dict(orjson.loads(answer))


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def print_rows(rows: list[Row]) -> None:
    columns = [str(row.live) for row in rows]
    print(
        "one search on agents of 8 slots; live trials:".ljust(50)
        + "".join(c.rjust(10) for c in columns)
        + "  exponent   budget"
    )
    for key in [k for k in asdict(rows[0]) if k != "live"]:
        values = [float(getattr(row, key)) for row in rows]
        cells = "".join(f"{value:10.2f}" for value in values)
        budget = BUDGETS.get(key)
        print(
            f"  {key:48}{cells}{_exponent(rows, values):>10}{'' if budget is None else f'{budget:9g}'}"
        )


def _exponent(rows: list[Row], values: list[float]) -> str:
    """Of the growth from the first to the last size."""
    first, last = values[0], values[-1]
    if len(rows) < 2 or not (first > 0 and last > 0):
        return ""
    return f"{math.log(last / first) / math.log(rows[-1].live / rows[0].live):.2f}"


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--live", type=int, nargs="+", default=sized([100, 1_000, 8_000], [8]), help="live trials"
    )
    parser.add_argument(
        "--seconds", type=float, default=STEADY_S, help="length of the steady phase"
    )
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    usable = sorted(os.sched_getaffinity(0))
    cores = (usable[0], usable[1]) if len(usable) > 1 else None
    if cores:
        os.sched_setaffinity(0, {cores[1]})
    rows = [asyncio.run(measure(live, options.seconds, cores)) for live in options.live]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print_rows(rows)
    bounds = dict.fromkeys(BUDGETS, slower()) | {"memory_mib": 1.0}
    # NaN, which was not reached, is within no budget.
    return exit_code(
        all(getattr(rows[-1], key) <= budget * bounds[key] for key, budget in BUDGETS.items())
    )


if __name__ == "__main__":
    sys.exit(main())
