"""Effects of a step: however many there are, others get a turn in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

from master.allocations.machine import KillContainers
from master.allocations.service import EFFECTS_AT_ONCE
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock


async def test_thousands_of_effects_let_others_have_a_turn(
    tmp_path: Path, clock: ManualClock
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    many = [KillContainers(f"1.r.{number}") for number in range(3 * EFFECTS_AT_ONCE)]
    done_at_my_turn: list[int] = []

    async def other() -> None:
        done_at_my_turn.append(len(cluster.rm.calls))

    try:
        waiting = asyncio.create_task(other())
        await cluster.allocations.run_effects(many)
        assert done_at_my_turn == [EFFECTS_AT_ONCE - 1]
        assert len(cluster.rm.take()) == len(many)
        await waiting
    finally:
        await cluster.crash()
