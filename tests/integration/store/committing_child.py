"""Commits until it is killed; prints the name of each unit after its commit has returned."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from master.store.store import Store
from master.store.tables import Meta
from master.store.unit_of_work import UnitOfWork
from windlass.base.clock import SystemClock


async def main(url: str) -> None:
    store = await Store.open(url, clock=SystemClock())
    await store.take_lease("child")

    async def committer(n: int) -> None:
        for i in count():
            name = f"{n}-{i}"
            unit = UnitOfWork()
            unit.insert(Meta, {"key": f"left {name}", "value": "x" * 500})
            unit.insert(Meta, {"key": f"right {name}", "value": i})
            await store.commit(unit)
            print(json.dumps(name), flush=True)

    async with asyncio.TaskGroup() as group:
        group.create_task(store.run())
        for n in range(20):
            group.create_task(committer(n))


asyncio.run(main(sys.argv[1]))
