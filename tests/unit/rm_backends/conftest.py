"""Scenarios of dispatching, played on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.agents_world import agents_world
from tests.fakes.batch_world import BatchWorld, Play, slurm_pool
from tests.fakes.virtual_time import run


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def play(scenario: Callable[[BatchWorld], Awaitable[None]], **options: Any) -> None:
        async def main() -> None:
            async with agents_world(starts=False) as world:
                batch = BatchWorld(world, tmp_path / "jobs", slurm_pool(**options))
                await batch.start()
                await scenario(batch)

        run(main(), limit_s=24 * 3600)

    return play
