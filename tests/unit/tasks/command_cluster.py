"""Commands on a scripted cluster: launched, granted, run and ended by the tests of their service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from master.core.jobs import JobType
from master.core.visibility import EVERYTHING
from master.store.contexts import ContextFile
from master.store.tables import Command
from master.tasks.interactive_queries import InteractiveQueries
from master.tasks.live import LiveTask
from master.tasks.service import NewTask
from rm_backends.base import (
    Container,
    ContainerExit,
    ContainerPhase,
    Granted,
    ResourceChanged,
)
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock


@asynccontextmanager
async def life(folder: Path, clock: ManualClock, **options: Any) -> AsyncIterator[ScriptedCluster]:
    started = await ScriptedCluster.start(folder, clock, **options)
    try:
        yield started
    finally:
        await started.crash()


def wanted(files: tuple[ContextFile, ...] = (), **config: Any) -> NewTask:
    raw = {"entrypoint": ["echo", "hi"], **config}
    return NewTask(type=JobType.COMMAND, config=raw, files=files)


async def launch(cluster: ScriptedCluster, **config: Any) -> LiveTask:
    launched = await cluster.commands.launch(wanted(**config), by=ADMIN)
    live = cluster.commands.live(launched.id)
    assert live is not None
    return live


def run_id(live: LiveTask) -> str:
    assert live.state.allocation is not None
    return live.state.allocation.id


async def grant(cluster: ScriptedCluster, live: LiveTask) -> None:
    id_ = run_id(live)
    cluster.rm.granted.add(id_)
    container = Container(container_id=f"{id_}-c", agent_id="a", rank=0, slot_ids=(0,))
    await cluster.allocations.handle(Granted(allocation_id=id_, containers=(container,)))


async def report(
    cluster: ScriptedCluster,
    live: LiveTask,
    phase: ContainerPhase,
    exit_: ContainerExit | None = None,
) -> None:
    id_ = run_id(live)
    event = ResourceChanged(allocation_id=id_, container_id=f"{id_}-c", phase=phase, exit=exit_)
    await cluster.allocations.handle(event)


async def start(cluster: ScriptedCluster, **config: Any) -> LiveTask:
    """A command that runs."""
    live = await launch(cluster, **config)
    await grant(cluster, live)
    await report(cluster, live, ContainerPhase.RUNNING)
    return live


async def exit_with(cluster: ScriptedCluster, live: LiveTask, code: int) -> None:
    await report(cluster, live, ContainerPhase.TERMINATED, ContainerExit(exit_code=code))


async def stored(cluster: ScriptedCluster, command_id: str) -> Command:
    return (await InteractiveQueries(cluster.store).task(command_id, EVERYTHING)).task


def only(cluster: ScriptedCluster) -> LiveTask:
    (live,) = cluster.commands.roots.job_roots()
    return live
