"""Opening and owning stores in tests; the fixtures are in conftest.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from master.store.store import Store
from windlass.base.clock import ManualClock


class Service(Protocol):
    async def run(self) -> None: ...

    async def close(self) -> None: ...


S = TypeVar("S", bound=Service)


@asynccontextmanager
async def running(service: S) -> AsyncIterator[S]:
    """Own the `run()` of a store while the block runs, then close it."""
    task = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await service.close()


@asynccontextmanager
async def leading_store(
    url: str, clock: ManualClock, *, inline: bool = False
) -> AsyncIterator[Store]:
    """A store that leads and runs."""
    store = await Store.open(url, clock=clock, inline=inline)
    await store.take_lease("test-master")
    async with running(store):
        yield store
