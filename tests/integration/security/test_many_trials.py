"""`max_concurrent_trials: 0` starts all trials at once, and keeps nobody waiting."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from master.experiments import machine, persistence
from tests.fakes.api_world import SINGLE, api_world

TRIALS = 500
MANY = SINGLE.replace(
    "{name: single,", f"{{name: random, max_trials: {TRIALS}, max_concurrent_trials: 0,"
)


async def test_the_first_trials_are_made_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, str] = {}

    def note(module: Any, name: str) -> None:
        really = getattr(module, name)

        def noted(*arguments: Any) -> Any:
            threads[name] = threading.current_thread().name
            return really(*arguments)

        monkeypatch.setattr(module, name, noted)

    note(machine, "begin")
    note(persistence, "trial_row")
    async with api_world(tmp_path) as world:
        await world.login()
        id_ = await world.create(MANY)
        found = await world.ok("GET", f"/api/v1/experiments/{id_}/trials?limit=1")
        assert found["pagination"]["total"] == TRIALS
    assert set(threads) == {"begin", "trial_row"}
    assert all(name.startswith("parsing") for name in threads.values())
