"""A real master with trials that run on pretended agents, for benchmarks of what trials and their users ask of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.bench_scale import LIMIT_S, SLOTS, MasterProcess, join_token, login, submit
from benchmarks.scale_load import Agent, Load, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    load: Load
    trials: list[Trial]
    master: psutil.Process
    admin: str
    """A token."""


@asynccontextmanager
async def running_trials(count: int) -> AsyncGenerator[Running]:
    """The master has a core of its own, if there are two."""
    usable = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        master = MasterProcess(Path(folder), usable[0] if len(usable) > 1 else None)
        master.start()
        load = Load(master.port, seed=count)
        try:
            await master.serving()
            admin = await login(load)
            token = await join_token(load, admin)
            agents = -(-count // SLOTS)
            for number in range(agents):
                load.spawn(Agent(load, f"agent-{number}", slots=SLOTS, token=token).run())
            await load.until(lambda: load.connected == agents, LIMIT_S)
            await submit(load, admin, count)
            if not await load.until(lambda: len(load.trials) >= count, LIMIT_S):
                raise RuntimeError(f"{len(load.trials)} of {count} trials were started")
            yield Running(
                load=load,
                trials=list(load.trials.values())[:count],
                master=psutil.Process(master.process.pid),
                admin=admin,
            )
        finally:
            await load.close()
            master.stop()
