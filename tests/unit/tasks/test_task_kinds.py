"""A kind of interactive task is a row of a table: the rest of its life knows only that row."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

import master.tasks
from master.core.jobs import JobType
from master.tasks.kinds import KINDS, TaskKind
from master.tasks.service import NewTask
from rm_backends.base import Container, Granted
from tests.fakes.scripted_cluster import OWNER, ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidConfig, InvalidState


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ScriptedCluster]:
    cluster = await ScriptedCluster.start(tmp_path, ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    yield cluster
    await cluster.crash()


@pytest.fixture(autouse=True)
def gadgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another kind, in the place of commands: one that has to be told a colour."""
    gadget = replace(
        KINDS[JobType.COMMAND],
        noun="gadget",
        config_name="gadget configuration",
        launch=lambda config: {"COLOUR": config.description},
    )
    monkeypatch.setitem(cast("dict[JobType, TaskKind]", KINDS), JobType.COMMAND, gadget)


def wanted(**config: object) -> NewTask:
    return NewTask(type=JobType.COMMAND, config=config, owner_id=OWNER, owner_name="admin")


async def test_a_kind_says_what_its_launcher_is_told_and_how_it_is_called(
    cluster: ScriptedCluster,
) -> None:
    launched = await cluster.commands.launch(wanted(description="blue"))
    box = Container(container_id="c", agent_id="a", rank=0, slot_ids=(0,))
    run = f"{launched.id}.1"
    await cluster.allocations.handle(Granted(allocation_id=run, containers=(box,)))
    assert cluster.rm.specs[run].environment["COLOUR"] == "blue"
    assert "DET_COMMAND_ENTRYPOINT" not in cluster.rm.specs[run].environment
    unnamed = await cluster.commands.launch(wanted())
    assert unnamed.config.description == f"Gadget ({unnamed.id[:8]})"
    await cluster.commands.kill(unnamed.id, by="admin")
    with pytest.raises(InvalidState, match=f"gadget {unnamed.id} is over"):
        await cluster.commands.set_priority(unnamed.id, 3)
    with pytest.raises(InvalidConfig, match="gadget configuration"):
        await cluster.commands.launch(wanted(resources={"resource_pool": "nowhere"}))


def test_no_other_module_of_the_package_names_a_kind() -> None:
    folder = Path(master.tasks.__path__[0])
    naming = {p.name for p in folder.glob("*.py") if "JobType.COMMAND" in p.read_text()}
    assert naming == {"kinds.py"}
