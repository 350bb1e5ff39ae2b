"""A kind of interactive task is a row of a table: the rest of its life knows only that row."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast

import pytest
from sqlalchemy import select

import master
from agent_bootstrap.container_options import ProxyPort
from master.core.expconf.kinds import CommandConfig
from master.core.jobs import JobType
from master.core.words import three_words
from master.store import tables
from master.tasks.kinds import KINDS, KindPort, Launch, Readiness, TaskKind
from master.tasks.live import LiveTask
from master.tasks.machine import ACTIVITY_WRITTEN_EVERY, TOLD_AFTER_RESTART
from master.tasks.service import NewTask
from rm_backends.base import Container, ContainerExit, ContainerPhase, Granted, ResourceChanged
from tests.fakes.actors import ADMIN
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidConfig, InvalidState

MakeGadgets: TypeAlias = Callable[..., None]
"""Sets columns of the kind."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ScriptedCluster]:
    cluster = await ScriptedCluster.start(tmp_path, ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    yield cluster
    await cluster.crash()


class Gadget(CommandConfig):
    noun: ClassVar[str] = "gadget"
    title: ClassVar[str] = "Gadget"


@pytest.fixture
def make_gadgets(monkeypatch: pytest.MonkeyPatch) -> MakeGadgets:
    """Another kind, in the place of commands: one that has to be told a colour."""
    command = KINDS[JobType.COMMAND]

    def make(**columns: Any) -> None:
        gadget = replace(
            command,
            model=Gadget,
            launch=lambda facts: Launch(variables={"COLOUR": facts.config.description}),
            **columns,
        )
        monkeypatch.setitem(cast("dict[JobType, TaskKind]", KINDS), JobType.COMMAND, gadget)

    return make


@pytest.fixture(autouse=True)
def gadgets(make_gadgets: MakeGadgets) -> None:
    make_gadgets()


def wanted(**config: object) -> NewTask:
    return NewTask(type=JobType.COMMAND, config=config)


async def test_a_kind_says_what_its_launcher_is_told_and_how_it_is_called(
    cluster: ScriptedCluster,
) -> None:
    launched = await cluster.commands.launch(wanted(description="blue"), by=ADMIN)
    box = Container(container_id="c", agent_id="a", rank=0, slot_ids=(0,))
    run = f"{launched.id}.1"
    await cluster.allocations.handle(Granted(allocation_id=run, containers=(box,)))
    assert cluster.rm.specs[run].environment["COLOUR"] == "blue"
    assert "DET_COMMAND_ENTRYPOINT" not in cluster.rm.specs[run].environment
    unnamed = await cluster.commands.launch(wanted(), by=ADMIN)
    assert unnamed.config.description == f"Gadget ({three_words(unnamed.id)})"
    await cluster.commands.kill(unnamed.id, by=ADMIN)
    with pytest.raises(InvalidState, match=f"gadget {unnamed.id} has already ended"):
        await cluster.commands.set_priority(unnamed.id, 3, by=ADMIN)
    with pytest.raises(InvalidConfig, match="gadget configuration"):
        await cluster.commands.launch(wanted(resources={"resource_pool": "nowhere"}), by=ADMIN)


SERVED = (
    KindPort(variable="GADGET_PORT", lowest_port=2900),
    KindPort(variable="GADGET_SHELL_PORT", lowest_port=3200, tcp=True, unauthenticated=True),
)


async def running(cluster: ScriptedCluster, number: int = 1, **config: object) -> LiveTask:
    launched = await cluster.commands.launch(wanted(**config), by=ADMIN)
    live = cluster.commands.live(launched.id)
    assert live is not None
    run = f"{launched.id}.1"
    box = Container(container_id=f"c{number}", agent_id="a", rank=0, slot_ids=(0,))
    await cluster.allocations.handle(Granted(allocation_id=run, containers=(box,)))
    await cluster.allocations.handle(
        ResourceChanged(
            allocation_id=run, container_id=box.container_id, phase=ContainerPhase.RUNNING
        )
    )
    return live


def phase_of(live: LiveTask) -> str:
    return live.state.phase.value


def is_ready(live: LiveTask) -> bool:
    return live.state.is_ready


async def test_its_services_are_ports_of_the_container_that_no_other_task_has(
    cluster: ScriptedCluster, make_gadgets: MakeGadgets
) -> None:
    make_gadgets(services=SERVED)
    proxied = [{"proxy_port": 8080, "proxy_tcp": False}]
    own = {"environment": {"proxy_ports": proxied, "ports": {"metrics": 9100}}}
    first, second = await running(cluster, 1, **own), await running(cluster, 2)
    spec = cluster.rm.specs[f"{first.id}.1"]
    assert spec.options.ports == (
        ProxyPort(port=2900),
        ProxyPort(port=3200, tcp=True, unauthenticated=True),
        ProxyPort(port=8080),
    )
    assert spec.options.published_ports == {"metrics": 9100}, "not proxied"
    assert (spec.environment["GADGET_PORT"], spec.environment["GADGET_SHELL_PORT"]) == (
        "2900",
        "3200",
    )
    other = cluster.rm.specs[f"{second.id}.1"]
    assert [port.port for port in other.options.ports] == [2901, 3201]
    stored = await cluster.store.read(select(tables.Port.port).order_by(tables.Port.port))
    assert stored == [2900, 2901, 3200, 3201]


async def test_a_port_that_was_exchanged_for_another_is_held_no_more(
    cluster: ScriptedCluster, make_gadgets: MakeGadgets
) -> None:
    make_gadgets(services=SERVED)
    live = await running(cluster)
    moved = await cluster.allocations.another_port(f"{live.id}.1", "GADGET_PORT", 2900)
    stored = await cluster.store.read(select(tables.Port.port).order_by(tables.Port.port))
    assert stored == [moved, 3200], "what is restored after a restart, and no other"


async def test_a_kind_without_services_holds_no_port(cluster: ScriptedCluster) -> None:
    live = await running(cluster)
    assert cluster.rm.specs[f"{live.id}.1"].options.ports == ()
    assert await cluster.store.read(select(tables.Port.port)) == []


async def test_it_is_ready_when_it_runs(cluster: ScriptedCluster) -> None:
    assert (await running(cluster)).state.is_ready
    waiting = cluster.commands.live((await cluster.commands.launch(wanted(), by=ADMIN)).id)
    assert waiting is not None
    assert not waiting.state.is_ready


async def test_a_kind_may_have_its_tasks_report_that_they_are_ready(
    cluster: ScriptedCluster, make_gadgets: MakeGadgets
) -> None:
    make_gadgets(readiness=Readiness.REPORTED)
    live = await running(cluster)
    assert not is_ready(live)
    await cluster.allocations.mark_ready(f"{live.id}.1")
    assert is_ready(live)


async def test_an_idle_task_is_ended_and_says_why(
    cluster: ScriptedCluster, make_gadgets: MakeGadgets
) -> None:
    make_gadgets(idle_timeout=lambda config: timedelta(minutes=10))
    waiting = cluster.commands.live((await cluster.commands.launch(wanted(), by=ADMIN)).id)
    live = await running(cluster)
    cluster.clock.advance(599)
    live.note_activity()
    cluster.clock.advance(599)
    await cluster.commands.roots.tick()
    assert phase_of(live) == "ACTIVE"
    cluster.clock.advance(1)
    await cluster.commands.roots.tick()
    assert phase_of(live) == "STOPPING"
    assert cluster.rm.calls[-1] == ("kill", f"{live.id}.1")
    exited = ContainerExit(exit_code=137)
    await cluster.allocations.handle(
        ResourceChanged(
            allocation_id=f"{live.id}.1",
            container_id="c1",
            phase=ContainerPhase.TERMINATED,
            exit=exited,
        )
    )
    assert live.state.exit_status == "killed: idle for more than 10m: service is inactive"
    assert waiting is not None
    assert phase_of(waiting) == "ACTIVE", "what waits for slots is not idle"


@pytest.mark.parametrize("hours", [5, -5])
async def test_a_clock_that_is_set_makes_no_task_idle(
    cluster: ScriptedCluster, make_gadgets: MakeGadgets, hours: int
) -> None:
    make_gadgets(idle_timeout=lambda config: timedelta(minutes=10))
    live = await running(cluster)
    cluster.clock.advance(300)
    live.note_activity()
    cluster.clock.jump(hours * 3600)
    cluster.clock.advance(599)
    await cluster.commands.roots.tick()
    assert phase_of(live) == "ACTIVE"
    cluster.clock.advance(1)
    await cluster.commands.roots.tick()
    assert phase_of(live) == "STOPPING"


async def test_an_active_task_writes_its_activity_now_and_then(
    cluster: ScriptedCluster, make_gadgets: MakeGadgets
) -> None:
    make_gadgets(idle_timeout=lambda config: timedelta(minutes=10))
    live = await running(cluster)
    cluster.store.commits = 0
    for _ in range(60):
        cluster.clock.advance(1)
        live.note_activity()
        await cluster.commands.roots.tick()
    assert cluster.store.commits == 60 / ACTIVITY_WRITTEN_EVERY.total_seconds()


async def test_a_restart_does_not_forget_when_it_was_active(
    tmp_path: Path, make_gadgets: MakeGadgets
) -> None:
    make_gadgets(idle_timeout=lambda config: timedelta(minutes=10))
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    cluster = await ScriptedCluster.start(tmp_path, clock)
    live = await running(cluster)
    clock.advance(300)
    cluster.commands.note_activity(live.id)
    await cluster.commands.roots.tick()
    await cluster.crash()
    clock.advance(300)
    cluster = await ScriptedCluster.start(tmp_path, clock)
    again = cluster.commands.live(live.id)
    assert again is not None
    clock.advance(299)
    await cluster.commands.roots.tick()
    assert phase_of(again) == "ACTIVE"
    clock.advance(1)
    await cluster.commands.roots.tick()
    assert phase_of(again) == "STOPPING"
    await cluster.crash()


@pytest.mark.parametrize("is_used", [True, False])
async def test_one_that_is_used_while_the_master_is_away_has_time_to_say_so(
    tmp_path: Path, make_gadgets: MakeGadgets, is_used: bool
) -> None:
    make_gadgets(idle_timeout=lambda config: timedelta(minutes=10))
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    cluster = await ScriptedCluster.start(tmp_path, clock)
    live = await running(cluster)
    await cluster.crash()
    clock.advance(10**5)
    cluster = await ScriptedCluster.start(tmp_path, clock)
    again = cluster.commands.live(live.id)
    assert again is not None
    clock.advance(TOLD_AFTER_RESTART.total_seconds() - 1)
    if is_used:
        cluster.commands.note_activity(live.id)
    await cluster.commands.roots.tick()
    assert phase_of(again) == "ACTIVE"
    clock.advance(1)
    await cluster.commands.roots.tick()
    assert phase_of(again) == ("ACTIVE" if is_used else "STOPPING")
    await cluster.crash()


async def test_the_time_begins_anew_when_it_is_ready(
    cluster: ScriptedCluster, make_gadgets: MakeGadgets
) -> None:
    make_gadgets(readiness=Readiness.REPORTED, idle_timeout=lambda config: timedelta(minutes=10))
    live = await running(cluster)
    run = f"{live.id}.1"
    cluster.clock.advance(599)
    await cluster.allocations.mark_ready(run)
    cluster.clock.advance(599)
    await cluster.allocations.mark_ready(run)
    await cluster.commands.roots.tick()
    assert phase_of(live) == "ACTIVE"
    cluster.clock.advance(1)
    await cluster.commands.roots.tick()
    assert phase_of(live) == "STOPPING", "who says it twice gains nothing"


async def test_a_kind_that_is_never_idle_runs_on(cluster: ScriptedCluster) -> None:
    live = await running(cluster)
    live.note_activity()
    cluster.clock.advance(10**7)
    await cluster.commands.roots.tick()
    assert phase_of(live) == "ACTIVE"


KIND_NAMES = re.compile(r"JobType\.COMMAND|\bCommandConfig\b|DET_COMMAND")
MAY_NAME_COMMANDS = {
    "api/interactive/kinds.py",
    "api/tasks/routes.py",  # a count of each
    "api/windlass/plans.py",
    "core/expconf/kinds.py",
    "tasks/kinds.py",
}


def test_no_other_module_of_the_master_names_a_kind() -> None:
    folder = Path(master.__path__[0])
    naming = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if KIND_NAMES.search(path.read_text())
    }
    assert naming == MAY_NAME_COMMANDS
