"""A machine that has lost its master ends itself, over restarts of its agent; one that is used does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_bootstrap.agent.daemon import AgentDaemon, AgentEnd, Connect
from agent_bootstrap.agent.membership.orphan_timer import (
    END_VARIABLE,
    OrphanTimer,
    end_machine,
    since_contact_s,
)
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.protocol import AgentChannel, ChannelClosed
from tests.fakes.fake_runtime import FakeRuntime
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.clock import ManualClock, SystemClock
from windlass.base.errors import PermissionDenied
from windlass.base.formats.durations import parse_duration

HALF_HOUR = parse_duration("30m")


async def nobody(_: str) -> AgentChannel:
    raise ChannelClosed("no master")


async def refuses(_: str) -> AgentChannel:
    raise PermissionDenied("your credential is not known")


def end_of(work_dir: Path, connect: Connect, **options: object) -> AgentEnd:
    async def main() -> AgentEnd:
        given = {"master_url": "http://127.0.0.1:1", "work_dir": str(work_dir), "agent_id": "a"}
        agent = AgentDaemon(
            parse_options({**given, "artificial_slots": 1, **options}),
            connect=connect,
            clock=LoopClock(),
            open_runtime=lambda *_: FakeRuntime(),
        )
        return await agent.run()

    return run(main(), limit_s=7200)


@pytest.mark.slow
@pytest.mark.parametrize("ends_machine", [True, False])
def test_an_agent_without_a_master_ends_its_machine_where_it_is_asked_to(
    tmp_path: Path, ends_machine: bool
) -> None:
    end = end_of(tmp_path, nobody, alone_ttl="30m", alone_ends_machine=ends_machine)
    assert end.reason == "no contact to the master for 30m, and nothing to do"
    assert end.ends_machine is ends_machine


def test_an_agent_that_is_refused_ends_its_machine_only_later(tmp_path: Path) -> None:
    end = end_of(tmp_path, refuses, alone_ttl="30m", alone_ends_machine=True)
    assert end.code == 1
    assert not end.ends_machine, "an operator may mend it"


def test_the_time_counts_over_restarts_of_the_agent() -> None:
    clock = ManualClock()
    alone = OrphanTimer(HALF_HOUR, clock, already_s=1790.0)
    clock.advance(20)
    assert not alone.is_over(), "each tries for a while"
    assert alone.is_over_with_those_before()
    clock.advance(60)
    assert alone.is_over()
    alone.not_now()
    assert not alone.is_over_with_those_before()
    clock.advance(1799)
    assert not alone.is_over()
    clock.advance(2)
    assert alone.is_over()


def test_the_last_contact_is_that_of_any_agent_since_the_machine_started(tmp_path: Path) -> None:
    clock = SystemClock()
    assert since_contact_s(tmp_path, clock) == 0.0
    (contact,) = tmp_path.iterdir()
    os.utime(contact, times=(0, clock.now().timestamp() - 40))
    assert 40 <= since_contact_s(tmp_path, clock) < 100
    os.utime(contact, times=(0, 0))
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    assert since_contact_s(tmp_path, clock) == pytest.approx(uptime_s, abs=60)
    os.utime(contact, times=(0, clock.now().timestamp() + 4000))
    assert since_contact_s(tmp_path, clock) == 0.0, "a clock that was set back"


def test_what_cannot_be_shut_down_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv(END_VARIABLE, f"touch {tmp_path / 'ended'}")
    assert end_machine()
    assert (tmp_path / "ended").exists()
    monkeypatch.setenv(END_VARIABLE, "sh -c 'echo not as an ordinary user >&2; exit 1'")
    assert not end_machine()
    assert "not as an ordinary user" in caplog.text
    monkeypatch.setenv(END_VARIABLE, "never-installed")
    assert not end_machine()


def test_without_a_limit_nobody_is_ever_alone() -> None:
    clock = ManualClock()
    alone = OrphanTimer(None, clock, already_s=1e9)
    clock.advance(1e9)
    assert not alone.is_over()
    assert not alone.is_over_with_those_before()
