"""Effects of a step: however many there are, others get a turn in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from master.allocations.effects import KillContainers, StartContainers
from master.allocations.service import EFFECTS_AT_ONCE
from master.core.jobs import JobType
from master.tasks.service import NewTask
from rm_backends.base import Container, Granted
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster, ScriptedManager
from windlass.base.clock import ManualClock
from windlass.base.errors import BatchSystemError


async def test_a_start_that_is_tried_again_does_not_overtake_the_kill(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)

    async def unreachable(*_: object) -> None:
        raise BatchSystemError("not now")

    new = NewTask(type=JobType.COMMAND, config={})
    try:
        task_id = (await cluster.commands.launch(new, by=ADMIN)).id
        allocation = f"{task_id}.1"
        box = Container(container_id="c", agent_id="a", rank=0, slot_ids=(0,))
        with monkeypatch.context() as patch:
            patch.setattr(ScriptedManager, "start", unreachable)
            await cluster.allocations.handle(Granted(allocation_id=allocation, containers=(box,)))
        await cluster.commands.kill(task_id, by=replace(ADMIN, name="eve"))
        cluster.rm.take()
        await cluster.allocations.run_effects([StartContainers(allocation)])
        assert cluster.rm.take() == []
    finally:
        await cluster.crash()


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
