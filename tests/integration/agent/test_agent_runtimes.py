"""The agent needs of a runtime what the Protocol says, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from agent_scripted_master import ScriptedMaster, spec

from agent_bootstrap.agent.daemon import AgentDaemon
from agent_bootstrap.agent.options import AgentOptions, parse_options
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup
from agent_bootstrap.protocol import ContainerState
from tests.fakes.fake_runtime import FakeRuntime
from windlass.base.errors import InvalidConfig


def options(tmp_path: Path, **more: object) -> AgentOptions:
    base = {"master_url": "http://m:1", "agent_id": "a", "artificial_slots": 1}
    return parse_options({**base, "work_dir": str(tmp_path / "work"), **more})


async def test_any_runtime_will_do(tmp_path: Path, master: ScriptedMaster) -> None:
    asked: list[str] = []
    tries: list[bool] = []

    def opened(name: str, setup: RuntimeSetup) -> FakeRuntime:
        asked.append(name)
        tries.append(setup.trial_on is not None)
        return FakeRuntime(machine)

    machine: dict[Path, object] = {}
    for _ in range(2):
        agent = AgentDaemon(
            options(tmp_path, container_runtime="mine"),
            connect=master.connect,
            open_runtime=opened,
        )
        running = asyncio.create_task(agent.run())
        try:
            if len(asked) < 2 and "c1" not in master.specs:
                await master.until(lambda: bool(master.hellos))
                await master.start(spec("c1", "forever"))
                await master.until_state("c1", ContainerState.RUNNING)
            else:
                await master.kill("c1")
                assert (await master.exit_of("c1")).exit_code == 137
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert asked == ["mine", "mine"]
    assert tries == [True, False], "work that goes on needs its agent"
    assert master.hellos[0].notes[0] == "nothing really runs here"
    assert len(set(master.credentials)) == 1, "the next agent shows the same credential"


async def test_a_pull_is_told_when_it_begins_when_it_is_over_and_on_each_connection(
    tmp_path: Path, master: ScriptedMaster
) -> None:
    pulled = asyncio.Event()
    agent = AgentDaemon(
        options(tmp_path),
        connect=master.connect,
        open_runtime=lambda *_: FakeRuntime(pulled=pulled),
    )
    running = asyncio.create_task(agent.run())
    try:
        await master.start(spec("c1", "forever"))
        await master.until(lambda: any(report.pulling for report in master.reports))
        await master.hang_up()
        await master.until(lambda: len(master.hellos) == 2)
        assert [report.pulling for report in master.hellos[1].containers] == [True]
        pulled.set()
        assert not (await master.until_state("c1", ContainerState.RUNNING)).pulling
        await master.kill("c1")
        await master.exit_of("c1")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_runtime_that_is_not_there_ends_the_agent_with_one_error(
    tmp_path: Path, master: ScriptedMaster
) -> None:
    agent = AgentDaemon(options(tmp_path, container_runtime="kubernetes"), connect=master.connect)
    with pytest.raises(
        InvalidConfig, match='"kubernetes" is not available, write one of: auto, process'
    ):
        await agent.run()
    assert master.hellos == []
