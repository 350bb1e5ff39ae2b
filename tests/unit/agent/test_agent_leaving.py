"""An agent whose machine goes: it says so at once, and again on every later connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agent_bootstrap.agent import announcement, daemon
from agent_bootstrap.agent.cli import app
from agent_bootstrap.agent.daemon import Agent
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.memory_channel import channel_pair
from agent_bootstrap.protocol import (
    Channel,
    Heartbeat,
    Hello,
    Leaving,
    Message,
    Stay,
    Staying,
    Welcome,
)

GOES = datetime(2026, 1, 1, 12, tzinfo=UTC)


def an_agent(work_dir: Path) -> tuple[Agent, asyncio.Queue[Channel]]:
    """And where its connections come out, the master's ends."""
    masters: asyncio.Queue[Channel] = asyncio.Queue()

    async def dial(credential: str) -> Channel:
        ours, theirs = channel_pair()
        masters.put_nowait(ours)
        return theirs

    agent = Agent(
        parse_options(
            {
                "master_url": "http://127.0.0.1:8080",
                "agent_id": "a",
                "artificial_slots": 1,
                "isolation": "directory",
                "work_dir": str(work_dir),
            }
        ),
        connect=dial,
    )
    return agent, masters


async def test_it_says_so_at_once_and_on_the_next_connection(tmp_path: Path) -> None:
    agent, masters = an_agent(tmp_path / "work")
    running = asyncio.create_task(agent.run())
    try:
        master = await masters.get()
        hello = await master.receive()
        assert isinstance(hello, Hello)
        assert hello.leaving is None
        await master.send(Welcome(epoch=1, master_id="m", cluster_id="c"))
        await agent._link.connected()
        await agent.leave(GOES, "spot notice")
        await agent.leave(GOES + timedelta(hours=1), "too late to matter")
        assert await _next_but_heartbeats(master) == Leaving(at=GOES, reason="spot notice")
        await master.close()
        hello = await (await masters.get()).receive()
        assert isinstance(hello, Hello)
        assert hello.leaving == Leaving(at=GOES, reason="spot notice")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def drain(work_dir: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["drain", "--work-dir", str(work_dir), *words])


async def test_an_operator_says_it_on_the_machine_and_the_next_agent_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "LOOK_S", 0.01)
    work_dir = tmp_path / "work"
    agent, masters = an_agent(work_dir)
    running = asyncio.create_task(agent.run())
    master = await masters.get()
    hello = await master.receive()
    assert isinstance(hello, Hello)
    assert hello.leaving is None
    await master.send(Welcome(epoch=1, master_id="m", cluster_id="c"))
    told = drain(work_dir, "--at", "2026-01-01T12:00Z", "--reason", "new disks")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout.startswith("This machine goes at 2026-01-01 ")
    assert told.stdout.endswith(": new disks\n")
    assert await _next_but_heartbeats(master) == Leaving(at=GOES, reason="new disks")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert "no agent is running there" in drain(work_dir, "--at", "2026-01-01T11:00Z").stdout
    again, masters = an_agent(work_dir)
    running = asyncio.create_task(again.run())
    hello = await (await masters.get()).receive()
    assert isinstance(hello, Hello)
    assert hello.leaving == Leaving(at=GOES - timedelta(hours=1), reason="maintenance")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_it_is_taken_back_on_the_machine_or_by_an_administrator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "LOOK_S", 0.01)
    work_dir = tmp_path / "work"
    agent, masters = an_agent(work_dir)
    running = asyncio.create_task(agent.run())
    master = await masters.get()
    await master.receive()
    await master.send(Welcome(epoch=1, master_id="m", cluster_id="c"))
    assert drain(work_dir, "--cancel").stdout == "Nothing was announced here\n"
    for by in ("cancel", "stay"):
        drain(work_dir, "--at", "2026-01-01T12:00Z")
        assert isinstance(await _next_but_heartbeats(master), Leaving)
        if by == "cancel":
            assert drain(work_dir, "--cancel").stdout == "This machine stays\n"
        else:
            await master.send(Stay(epoch=1))
        assert await _next_but_heartbeats(master) == Staying()
        assert announcement.announced(work_dir) is None
    await master.close()
    hello = await (await masters.get()).receive()
    assert isinstance(hello, Hello)
    assert hello.leaving is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_what_was_said_before_a_restart_of_the_machine_or_is_damaged_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert announcement.announced(tmp_path) is None
    (tmp_path / announcement.LOCK).touch()
    announcement.announce(tmp_path, Leaving(at=GOES, reason="x"))
    assert announcement.announced(tmp_path) == Leaving(at=GOES, reason="x")
    monkeypatch.setattr(announcement, "boot_id", lambda: "the next")
    assert announcement.announced(tmp_path) is None
    (tmp_path / announcement.FILE).write_bytes(b'{"boot_id": 1')
    assert announcement.announced(tmp_path) is None


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("18:00", "2026-01-01T23:00Z"),
        ("08:00", "2026-01-02T13:00Z"),
        ("2026-01-31T18:00", "2026-01-31T23:00Z"),
        ("2026-07-31T18:00", "2026-07-31T22:00Z"),
        ("2026-01-31 18:00+01:00", "2026-01-31T17:00Z"),
        ("2025-01-01", "2025-01-01T05:00Z"),
    ],
)
def test_a_time_is_the_machines_unless_it_has_a_zone(said: str, meant: str) -> None:
    now = datetime(2026, 1, 1, 20, tzinfo=UTC)  # 15:00 in New York
    assert announcement.parse_time(said, now) == datetime.fromisoformat(meant)


@pytest.mark.parametrize("said", ["6pm", "25:00", "tomorrow", "18:00:99", "9999-12-31T23:59"])
def test_a_time_that_is_none_is_said(said: str, tmp_path: Path) -> None:
    told = drain(tmp_path, "--at", said)
    assert told.exit_code == 2
    assert told.stderr.startswith(f'error: --at: "{said}" is ')
    assert list(tmp_path.iterdir()) == []


def test_a_time_that_is_not_given_is_asked_for(tmp_path: Path) -> None:
    told = drain(tmp_path)
    assert told.exit_code == 2
    assert told.stderr.startswith("error: --at is missing")


def test_a_work_dir_that_is_not_there_is_said(tmp_path: Path) -> None:
    for place in (tmp_path / "none", tmp_path):
        told = drain(place, "--at", "18:00")
        assert told.exit_code == 2
        assert f"{place} is not the directory of an agent: name that with --work-dir" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_later_time_does_not_replace_a_sooner_one(tmp_path: Path) -> None:
    (tmp_path / announcement.LOCK).touch()
    assert drain(tmp_path, "--at", "2026-01-01T12:00Z", "--reason", "new disks").exit_code == 0
    told = drain(tmp_path, "--at", "2026-01-01T13:00Z")
    assert told.exit_code == 2
    assert "This machine goes at 2026-01-01 12:00+00:00 already: new disks." in told.stderr
    assert announcement.announced(tmp_path) == Leaving(at=GOES, reason="new disks")


def test_the_work_dir_is_the_one_of_agent_yaml(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(f"work_dir: {tmp_path}\n")
    (tmp_path / announcement.LOCK).touch()
    told = CliRunner().invoke(app, ["drain", "--at", "18:00", "--config-file", str(config)])
    assert told.exit_code == 0, told.stderr
    assert announcement.announced(tmp_path) is not None


async def _next_but_heartbeats(channel: Channel) -> Message:
    while isinstance(message := await channel.receive(), Heartbeat):
        pass
    return message
