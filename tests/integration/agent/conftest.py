"""Agents on real processes, against a scripted master."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from agent_scripted_master import ScriptedMaster

from agent_bootstrap.agent.daemon import AgentDaemon, AgentEnd
from agent_bootstrap.agent.options import parse_options
from tests.jails import open_way_to, works_or_skip
from windlass.base.processes import ProcessName, is_running

RunAgent = Callable[..., AbstractAsyncContextManager["asyncio.Task[AgentEnd]"]]


@pytest.fixture(params=["bubblewrap", "namespace", "directory"])
def isolation(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """How tasks are kept apart."""
    way: str = request.param
    works_or_skip(way, tmp_path)
    open_way_to(tmp_path / "x")
    return way


@pytest.fixture
async def master() -> AsyncIterator[ScriptedMaster]:
    scripted = ScriptedMaster()
    yield scripted
    await scripted.close()


@pytest.fixture
def cid() -> str:
    """A container id that no other test run on this machine uses."""
    return f"c-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def work_dir(tmp_path: Path) -> Iterator[Path]:
    """What runs in it at the end of the test is killed."""
    path = tmp_path / "work"
    yield path
    for told in path.glob("containers/*/supervisor.json"):
        who = json.loads(told.read_text())
        if is_running(ProcessName(who["pid"], who["start_time"], who["boot_id"])):
            os.kill(who["pid"], signal.SIGKILL)


@pytest.fixture
def run_agent(work_dir: Path, master: ScriptedMaster, isolation: str) -> RunAgent:
    """`async with run_agent() as task`: an agent on the test's one work_dir; its containers outlive it."""

    @asynccontextmanager
    async def run(
        *, lifeline_fd: int | None = None, **settings: object
    ) -> AsyncIterator[asyncio.Task[AgentEnd]]:
        base = {
            "master_url": "http://127.0.0.1:8080",
            "agent_id": "a",
            "artificial_slots": 2,
            "isolation": isolation,
            "work_dir": str(work_dir),
        }
        agent = AgentDaemon(
            parse_options(base | settings), connect=master.connect, lifeline_fd=lifeline_fd
        )
        task = asyncio.create_task(agent.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run
