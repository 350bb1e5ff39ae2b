"""What 200 busy tabs cost a master, and how soon after its commit a change is told.

    python -m benchmarks.bench_live

Each tab has a socket of its own and follows what an experiment's page follows: the list, an experiment, its trials, one
trial, the queue. Ten experiments report 100 times a second together, each report a commit of its own in SQLite. What is
measured is the CPU of the master with the tabs, less that of the same commits without. One of the tabs follows only the
workspaces: how long after its commit it hears of each change. Budgets: 15 % of a core; 0.5 s for 99 of 100 changes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import websockets.asyncio.client as sockets

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from master.api.live.socket import LIVE
from master.live.hub import LiveHub
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from tests.fakes.api_world import ApiWorld, api_world
from tests.fakes.served_api import served
from tests.fakes.stored_rows import experiment, trial

TABS, REPORTS_A_SECOND, SECONDS = sized((200, 100, 10), (4, 20, 2))
EXPERIMENTS, TRIALS = 10, 20
"""And trials of each."""
PROBES_A_SECOND = 2
"""Seldom enough that no message waits for the one before."""
BUDGET, BUDGET_S = 0.15, 0.5


async def rows(world: ApiWorld) -> None:
    unit = UnitOfWork()
    unit.insert(tables.Experiment, *(experiment(id_) for id_ in range(1, EXPERIMENTS + 1)))
    for id_ in range(1, EXPERIMENTS * TRIALS + 1):
        row = {**trial(id_), "experiment_id": (id_ - 1) // TRIALS + 1, "request_id": f"r{id_}"}
        unit.insert(tables.Trial, row)
    await world.services.store.commit(unit)


async def report(world: ApiWorld) -> tuple[float, list[float]]:
    """CPU of this process in `SECONDS` of reports, and when each change of the probe was committed."""
    begun, cpu, store = time.perf_counter(), time.process_time(), world.services.store
    committed = []
    for number in range(REPORTS_A_SECOND * SECONDS):
        unit = UnitOfWork()
        id_ = number * 7 % (EXPERIMENTS * TRIALS) + 1
        unit.update(tables.Trial, {"id": id_}, {"steps_completed": number}, expect=1)
        await store.commit(unit)
        if number % (REPORTS_A_SECOND // PROBES_A_SECOND) == 0:
            unit = UnitOfWork()
            unit.update(tables.Project, {"id": 1}, {"description": str(number)}, expect=1)
            await store.commit(unit)
            committed.append(time.monotonic())
        await asyncio.sleep(max(0.0, begun + (number + 1) / REPORTS_A_SECOND - time.perf_counter()))
    return time.process_time() - cpu, committed


async def measure() -> tuple[float, float, int, list[float]]:
    """Parts of a core without and with the tabs, how many messages these got, and how late the probe was told."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/windlass.db"
        async with api_world(Path(folder), db_url=database) as world, AsyncExitStack() as exits:
            token = await world.login()
            hub = LiveHub(world.services.store, world.services.auth.rights)
            telling = asyncio.create_task(hub.run())
            exits.callback(telling.cancel)
            api = world.app.state.api
            world.app.state.api = replace(api, services=replace(api.services, live=hub))
            await rows(world)
            server = await exits.enter_async_context(served(world))
            alone, _ = await report(world)
            tabs = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "benchmarks.bench_live", *sys.argv[1:]),
                *("--tabs", server.url.replace("http:", "ws:") + LIVE, token),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert tabs.stdout is not None
            assert await tabs.stdout.readline() == b"ready\n"
            busy, committed = await report(world)
            await asyncio.sleep(2.0)
            said, _ = await tabs.communicate(b"\n")
            messages, told = json.loads(said)
            late = [min(at for at in told if at >= then) - then for then in committed]
            return alone / SECONDS, busy / SECONDS, messages, late


def topics_of(tab: int) -> list[str]:
    id_ = tab % (EXPERIMENTS * TRIALS) + 1
    of = (id_ - 1) // TRIALS + 1
    return ["experiments", f"experiment {of}", f"trials {of}", f"trial {id_}", "queue"]


async def read(url: str, token: str) -> None:
    """The tabs' side, a process of its own."""
    messages, told = 0, list[float]()
    headers = {"Authorization": f"Bearer {token}"}

    async def follow(topics: list[str], ready: asyncio.Event, *, is_probe: bool = False) -> None:
        nonlocal messages
        connecting = sockets.connect(
            url, proxy=None, additional_headers=headers, ping_interval=None, compression=None
        )
        async with connecting as socket:
            for number, topic in enumerate(topics, 1):
                await socket.send(json.dumps({"subscribe": {"id": number, "topic": topic}}))
            accepted = 0
            async for message in socket:
                news = json.loads(message).get("news", {})
                accepted += sum(seq == 0 for seq in news.values())
                if accepted == len(topics):
                    ready.set()
                if is_probe and any(news.values()):
                    told.append(time.monotonic())
                messages += not is_probe

    following, waiting = [], [asyncio.Event() for _ in range(TABS)]
    for tab, ready in enumerate(waiting):
        is_probe = tab == TABS - 1
        topics = ["workspaces"] if is_probe else topics_of(tab)
        following.append(asyncio.create_task(follow(topics, ready, is_probe=is_probe)))
        await ready.wait()
    messages = 0
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps([messages, told]), flush=True)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--tabs", nargs=2, metavar=("URL", "TOKEN"), help="the tabs' side")
    given = parser.parse_args()
    if given.tabs:
        asyncio.run(read(*given.tabs))
        return 0
    print_calibration()
    slower = loop_s() / REFERENCE_S
    alone, busy, messages, late = asyncio.run(measure())
    cost, p99 = busy - alone, sorted(late)[int(len(late) * 0.99)]
    print(
        f"{TABS} tabs, {REPORTS_A_SECOND} reports a second: {messages:,} messages; {alone:.1%} of a core without "
        f"them, {busy:.1%} with them: they cost {cost:.1%} ({cost / slower:.1%} on the reference machine; "
        f"budget {BUDGET:.0%})"
    )
    print(
        f"from commit to message, 99 % of {len(late)}: {p99 * 1000:.0f} ms (budget {BUDGET_S:.1f} s)"
    )
    return exit_code(cost / slower <= BUDGET and p99 / slower <= BUDGET_S)


if __name__ == "__main__":
    raise SystemExit(main())
