"""`max_concurrent_trials: 0` starts all trials at once, and keeps nobody waiting."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from master.experiments.lifecycle import machine, persistence
from master.server.loop_watch import WatchedLoop
from tests.fakes.api_world import SINGLE, ApiWorld, api_world

LONGEST_STEP_S = 0.25
"""Of CPU time on the event loop."""


def many(trials: int) -> str:
    searcher = f"{{name: random, max_trials: {trials}, max_concurrent_trials: 0,"
    return SINGLE.replace("{name: single,", searcher)


async def create_and_kill(world: ApiWorld, trials: int) -> None:
    await world.login()
    body = {"config": many(trials), "activate": True, "modelDefinition": []}
    created = await world.ok("POST", "/api/v1/experiments", body)
    path = f"/api/v1/experiments/{created['experiment']['id']}"
    found = await world.ok("GET", f"{path}/trials?limit=1")
    assert found["pagination"]["total"] == trials
    await world.ok("POST", f"{path}/pause")
    await world.ok("POST", f"{path}/activate")
    await world.ok("POST", f"{path}/kill")
    ended = await world.ok("GET", path)
    assert ended["experiment"]["state"] == "STATE_CANCELED"


async def test_steps_over_many_trials_are_made_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[tuple[str, str]] = set()

    def note(module: Any, name: str) -> None:
        really = getattr(module, name)

        def noted(*arguments: Any) -> Any:
            threads.add((name, threading.current_thread().name.split("_")[0]))
            return really(*arguments)

        monkeypatch.setattr(module, name, noted)

    steps = ("begin", "pause", "activate", "kill")
    for name in steps:
        note(machine, name)
    note(persistence, "trial_row")
    async with api_world(tmp_path) as world:
        await create_and_kill(world, 500)
    assert threads == {(name, "parsing") for name in (*steps, "trial_row")}


@pytest.mark.slow
def test_no_step_of_the_event_loop_over_ten_thousand_trials_is_long(tmp_path: Path) -> None:
    steps: list[tuple[float, str]] = []

    async def main() -> None:
        async with api_world(tmp_path, db_url=f"sqlite:///{tmp_path}/windlass.db") as world:
            await create_and_kill(world, 10_000)

    gc.collect()
    gc.freeze()  # as the master does: else each collection looks at all that earlier tests left
    try:
        watched = asyncio.Runner(
            loop_factory=lambda: WatchedLoop(lambda name, seconds: steps.append((seconds, name)))
        )
        with watched as runner:
            runner.run(main())
    finally:
        gc.unfreeze()
    assert [step for step in steps if step[0] > LONGEST_STEP_S] == []
