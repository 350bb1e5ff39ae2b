"""Agents and masters come and go; containers, their output and their exits stay."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from agent_processes import eventually, gone, of_container, supervisor
from agent_scripted_master import ScriptedMaster, spec
from conftest import RunAgent

from agent_bootstrap.agent import machine
from agent_bootstrap.agent.connection import session
from agent_bootstrap.agent.containers.directory import ContainerDirs, ContainerRecord
from agent_bootstrap.protocol import (
    AgentShutdown,
    ContainerState,
    ExitFailure,
    Heartbeat,
    Hello,
    JoinRefused,
    KillContainer,
    Message,
    StartContainer,
)

COUNT_TO_FILE_END = (
    "import os, sys, time; n = 0; stop = os.environ['TMPDIR'] + '/stop'\n"
    "while not os.path.exists(stop): print(n, flush=True); n += 1; time.sleep(0.002)\n"
    "sys.exit(6)"
)


async def test_a_new_agent_takes_over_and_no_line_is_lost_or_doubled(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, work_dir: Path
) -> None:
    """The agent goes three times while output flows; the last time the task ends while nobody looks."""
    async with run_agent():
        await master.start(spec(cid, "{python}", "-c", COUNT_TO_FILE_END))
        await master.until_line(cid, "20")
    for _ in range(2):
        async with run_agent():
            seen = len(master.text(cid))
            await master.until(lambda seen=seen: len(master.text(cid)) > seen + 50)
    who = supervisor(work_dir, cid)
    (work_dir / "containers" / cid / "tmp" / "stop").touch()
    await gone(who["pid"])
    async with run_agent():
        assert (await master.exit_of(cid)).exit_code == 6
    lines = master.text(cid)
    assert lines == [str(n) for n in range(len(lines))]
    assert len(master.hellos) >= 3


async def test_a_running_container_is_found_running_and_can_be_killed(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sleep", "300"))
        await master.until_state(cid, ContainerState.RUNNING)
    master.reports.clear()
    async with run_agent():
        await master.until_state(cid, ContainerState.RUNNING)
        await master.kill(cid)
        assert (await master.exit_of(cid)).exit_code == 137


async def test_an_exit_is_told_until_it_is_forgotten(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, work_dir: Path
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", "exit 9"))
        await master.exit_of(cid)
    for _ in range(2):
        async with run_agent():
            master.reports.clear()
            await master.hang_up()
            assert (await master.exit_of(cid)).exit_code == 9
    async with run_agent():
        await master.forget(cid)
        await eventually(lambda: not (work_dir / "containers" / cid).exists())
        seen = len(master.hellos)
        await master.hang_up()
        await master.until(lambda: len(master.hellos) > seen)
        assert master.hellos[-1].containers == ()


async def test_a_lost_connection_loses_no_output(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    script = "import time\nfor n in range(300): print(n, flush=True); time.sleep(0.004)"
    async with run_agent():
        await master.start(spec(cid, "{python}", "-c", script))
        for at in (20, 120, 220):
            await master.until(lambda at=at: len(master.text(cid)) > at)
            await master.hang_up()
        assert (await master.exit_of(cid)).exit_code == 0
    assert master.text(cid) == [str(n) for n in range(300)]


async def test_what_the_master_does_not_keep_is_killed_and_removed(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, work_dir: Path
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", "setsid sleep 300 & echo up; wait"))
        await master.until_line(cid, "up")
        master.keep.clear()
        await master.hang_up()
        await eventually(lambda: not (work_dir / "containers" / cid).exists())
        assert of_container(cid) == []


async def test_a_supervisor_that_died_unseen_is_the_agents_failure(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, work_dir: Path
) -> None:
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", "setsid sleep 300 & echo up; wait"))
        await master.until_line(cid, "up")
    who = supervisor(work_dir, cid)
    os.kill(who["pid"], signal.SIGKILL)
    async with run_agent():
        verdict = await master.exit_of(cid)
        assert (verdict.exit_code, verdict.failure) == (None, ExitFailure.AGENT_FAILED)
        assert of_container(cid) == []


async def test_a_start_that_an_agent_did_not_finish_is_aborted_and_never_happens(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, work_dir: Path
) -> None:
    """The directory is there, the specification too, but no supervisor: the agent died in between."""
    dirs = ContainerDirs(work_dir)
    with dirs.locked():
        place = dirs.of(cid)
        place.create(ContainerRecord.of(spec(cid, "true")))
        place.spec.write_text("{}")
    master.keep.add(cid)
    async with run_agent():
        verdict = await master.exit_of(cid)
    assert verdict.failure is ExitFailure.ABORTED
    assert not place.spec.exists()


async def test_a_start_told_twice_happens_once(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    task = spec(cid, "sh", "-c", "echo once; sleep 300")
    async with run_agent():
        await master.start(task)
        await master.until_line(cid, "once")
        await master.until_state(cid, ContainerState.RUNNING)
        seen = len(master.reports)
        await master.start(task)
        await master.until(lambda: len(master.reports) > seen)
        assert master.reports[-1].state is ContainerState.RUNNING
        await master.kill(cid)
        await master.exit_of(cid)
    assert master.text(cid) == ["once"]


async def test_killing_what_the_agent_does_not_know_is_answered(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    async with run_agent():
        await master.kill(cid)
        assert (await master.exit_of(cid)).failure is ExitFailure.ABORTED


@pytest.mark.parametrize("isolation", ["directory"], indirect=True)
async def test_a_succeeded_master_is_not_obeyed(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, work_dir: Path
) -> None:
    master.epoch = 5
    async with run_agent():
        await master.start(spec(f"{cid}-new", "true"))
        await master.exit_of(f"{cid}-new")
        await master.send(StartContainer(epoch=4, spec=spec(f"{cid}-old", "true")))
        await master.kill("unknown")
        await master.exit_of("unknown")
        assert not (work_dir / "containers" / f"{cid}-old").exists()
    master.epoch = 4
    async with run_agent():
        await master.until(lambda: master.hellos[-1].highest_epoch == 5)
        seen = len(master.hellos)
        await master.until(lambda: len(master.hellos) > seen)  # it hung up, and asks again


@pytest.mark.parametrize("isolation", ["directory"], indirect=True)
async def test_a_refusal_for_good_ends_the_agent(
    master: ScriptedMaster, run_agent: RunAgent
) -> None:
    master.answer_hello = lambda _: JoinRefused(reason="no such pool")
    async with run_agent() as agent:
        end = await agent
    assert (end.code, end.reason) == (1, "refused by the master: no such pool")


@pytest.mark.parametrize("isolation", ["directory"], indirect=True)
async def test_the_same_refusal_again_and_again_is_said_once(
    master: ScriptedMaster, run_agent: RunAgent, caplog: pytest.LogCaptureFixture
) -> None:
    refused = 0

    def answer(_: Hello) -> Message:
        nonlocal refused
        refused += 1
        if refused > 3:
            return master.welcome()
        return JoinRefused(reason="connected already", retry=True)

    master.answer_hello = answer
    async with run_agent():
        await master.until(lambda: refused > 3)
    assert caplog.text.count("connected already") == 1


@pytest.mark.parametrize("isolation", ["directory"], indirect=True)
async def test_a_refused_agent_with_work_waits_for_an_operator_to_mend_it(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    async with run_agent() as agent:
        await master.start(spec(cid, "sh", "-c", "echo up; sleep 300"))
        await master.until_line(cid, "up")
        answers = iter([JoinRefused(reason="another credential"), master.welcome()])
        master.answer_hello = lambda _: next(answers)
        seen = len(master.hellos)
        await master.hang_up()
        await master.until(lambda: len(master.hellos) >= seen + 2)
        assert not agent.done()
        assert of_container(cid)


@pytest.mark.parametrize("isolation", ["directory"], indirect=True)
async def test_operators_are_told_of_the_fallback_and_of_a_full_disk(
    master: ScriptedMaster, run_agent: RunAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LOW_DISK_BYTES", 1 << 62)
    monkeypatch.setattr(session, "HEARTBEAT_S", 0.01)
    async with run_agent():
        await master.until(lambda: bool(master.said))
    beat = master.said[0]
    assert isinstance(beat, Heartbeat)
    assert beat.notes == master.hellos[0].notes
    assert "isolation: directory" in beat.notes[0]
    assert "GiB left" in beat.notes[1]
    assert beat.disk_free_bytes


async def test_shutdown_ends_the_containers_first(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    async with run_agent() as agent:
        await master.start(spec(cid, "sleep", "300"))
        await master.until_state(cid, ContainerState.RUNNING)
        await master.send(AgentShutdown(epoch=1, reason="its instance goes"))
        assert (await agent).code == 0
    assert (await master.exit_of(cid)).exit_code == 137
    assert of_container(cid) == []


async def test_a_kill_right_behind_the_start_is_not_lost(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    """Whatever of the start it meets: no directory, no supervisor, no handlers, no task."""
    ids = [f"{cid}-{n}" for n in range(6)]
    async with run_agent():
        for n, container_id in enumerate(ids):
            await master.start(spec(container_id, "sleep", "300"))
            await asyncio.sleep(0.012 * n)
            await master.send(
                KillContainer(epoch=1, container_id=container_id, allocation_id="x.1")
            )
        for container_id in ids:
            verdict = await master.exit_of(container_id)
            assert verdict.exit_code == 137 or verdict.failure is ExitFailure.ABORTED
            assert of_container(container_id) == []


async def test_the_end_of_the_lifeline_is_the_end_of_agent_and_tasks(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, work_dir: Path
) -> None:
    read_end, write_end = os.pipe()
    try:
        async with run_agent(lifeline_fd=read_end) as agent:
            script = (
                "import os, time, subprocess as s\n"
                "print(*sorted(os.listdir('/proc/self/fd')))\n"
                "s.Popen(['sleep', '300'], start_new_session=True); print('up', flush=True)\n"
                "time.sleep(300)"
            )
            await master.start(spec(cid, "{python}", "-c", script))
            await master.until_line(cid, "up")
            who = supervisor(work_dir, cid)
            # 0 to 2, and the one that is listed: the lifeline does not reach the task.
            assert master.text(cid)[0].split() == ["0", "1", "2", "3"]
            os.close(write_end)
            assert (await agent).code == 1
            await gone(who["pid"], who["top_pid"])
            await eventually(lambda: of_container(cid) == [])
    finally:
        os.close(read_end)
