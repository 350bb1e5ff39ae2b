"""What 1,000 open streams of live updates cost a master in which 200 things change a second.

    python -m benchmarks.bench_streams

Each stream follows the five projects of a workspace and one of another, over a WebSocket of its own; five streams share
a workspace. The changes go round all 1,000 projects, each a commit of its own in SQLite that concerns six streams. What
is measured is the CPU of the master with the streams, less that of the same changes without: looking who is concerned,
reading rows, sending messages. Budget: 10 % of a core.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import websockets.asyncio.client as sockets

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import REFERENCE_S, loop_s, print_calibration
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from master.updates.hub import UpdateHub
from tests.fakes.api_world import ApiWorld, api_world
from tests.fakes.served_api import served

WORKSPACES, STREAMS, CHANGES_A_SECOND, SECONDS = sized((200, 1_000, 200, 10), (4, 8, 20, 1))
PROJECTS = 5
"""Of a workspace."""
OTHERS = 1
"""That a stream follows besides, by their ids."""
BUDGET = 0.10
"""Of a core."""
OPENED_AT_ONCE = 50
FILES = 8_192


async def rows(world: ApiWorld) -> None:
    unit = UnitOfWork()
    for workspace in range(2, WORKSPACES + 2):
        unit.insert(tables.Workspace, {"id": workspace, "name": f"w{workspace}", "user_id": 1})
    await world.services.store.commit(unit)
    unit = UnitOfWork()
    for number in range(WORKSPACES * PROJECTS):
        place = {"workspace_id": number // PROJECTS + 2, "user_id": 1}
        unit.insert(tables.Project, {"id": number + 2, "name": f"p{number}", **place})
    await world.services.store.commit(unit)


async def change(world: ApiWorld) -> float:
    """CPU of this process in `SECONDS` of changes."""
    begun, cpu, store = time.perf_counter(), time.process_time(), world.services.store
    for number in range(CHANGES_A_SECOND * SECONDS):
        unit = UnitOfWork()
        id_ = number * 7 % (WORKSPACES * PROJECTS) + 2
        unit.update(tables.Project, {"id": id_}, {"description": str(number)}, expect=1)
        await store.commit(unit)
        await asyncio.sleep(max(0.0, begun + (number + 1) / CHANGES_A_SECOND - time.perf_counter()))
    await asyncio.sleep(1.0)
    return time.process_time() - cpu


async def measure() -> tuple[float, float, int]:
    """Parts of a core without and with the streams, and how many messages these got."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/windlass.db"
        async with api_world(Path(folder), db_url=database) as world, AsyncExitStack() as exits:
            token = await world.login()
            hub = UpdateHub(world.services.store, world.services.auth.rights)
            telling = asyncio.create_task(hub.run())
            exits.callback(telling.cancel)
            api = world.app.state.api
            world.app.state.api = replace(api, services=replace(api.services, updates=hub))
            await rows(world)
            server = await exits.enter_async_context(served(world))
            alone = await change(world)
            readers = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "benchmarks.bench_streams", *sys.argv[1:]),
                *("--read", server.url.replace("http:", "ws:") + "/stream", token),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert readers.stdout is not None
            assert await readers.stdout.readline() == b"ready\n"
            busy = await change(world)
            said, _ = await readers.communicate(b"\n")
            return alone / SECONDS, busy / SECONDS, int(said)


async def read(url: str, token: str) -> None:
    """The streams' side, a process of its own."""
    counts = [0] * STREAMS
    synced = [asyncio.Event() for _ in range(STREAMS)]
    gate = asyncio.Semaphore(OPENED_AT_ONCE)

    async def follow(number: int) -> None:
        async with AsyncExitStack() as exits:
            async with gate:
                headers = {"Authorization": f"Bearer {token}"}
                connecting = sockets.connect(
                    url,
                    proxy=None,
                    additional_headers=headers,
                    ping_interval=None,
                    compression=None,
                )
                socket = await exits.enter_async_context(connecting)
                others = [
                    (number * 31 + n * 97) % (WORKSPACES * PROJECTS) + 2 for n in range(OTHERS)
                ]
                wanted = {"workspace_ids": [number % WORKSPACES + 2], "project_ids": others}
                await socket.send(json.dumps({"sync_id": "1", "subscribe": {"projects": wanted}}))
                while '"complete":true' not in str(await socket.recv()):
                    pass
            synced[number].set()
            async for _ in socket:
                counts[number] += 1

    following = [asyncio.create_task(follow(number)) for number in range(STREAMS)]
    for one in synced:
        await one.wait()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(sum(counts), flush=True)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--read", nargs=2, metavar=("URL", "TOKEN"), help="the streams' side")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, most), most))
    if given.read:
        asyncio.run(read(*given.read))
        return 0
    print_calibration()
    slower = loop_s() / REFERENCE_S
    alone, busy, messages = asyncio.run(measure())
    cost = busy - alone
    print(
        f"{STREAMS:,} streams, {CHANGES_A_SECOND} changes a second: {messages:,} messages; "
        f"{alone:.1%} of a core without them, {busy:.1%} with them: they cost {cost:.1%} "
        f"({cost / slower:.1%} on the reference machine; budget {BUDGET:.0%})"
    )
    return exit_code(cost / slower <= BUDGET)


if __name__ == "__main__":
    raise SystemExit(main())
