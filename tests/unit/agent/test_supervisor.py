"""What a supervisor does when a task is faster than it, or nobody comes back."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from agent_bootstrap.agent.machine import AgentMachine
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.slots import Hardware
from agent_bootstrap.supervisor import contact
from agent_bootstrap.supervisor.supervisor import Supervisor
from tests.fakes.fake_runtime import FakeRuntime
from windlass.base.errors import InvalidConfig


def test_a_task_that_has_ended_before_it_is_noted_down_is_noted_all_the_same(
    tmp_path: Path,
) -> None:
    supervisor = Supervisor(str(tmp_path), None)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
        supervisor._init = ended.pid
        supervisor._identify("running")
    told = json.loads((tmp_path / "supervisor.json").read_text())
    assert (told["init_pid"], told["init_start_time"]) == (ended.pid, None)


class Clock:
    """Stands where the module `time` stands."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_tasks_outlive_a_master_that_comes_back_in_time_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(contact, "time", clock)
    container = tmp_path / "containers" / "c"
    watched = contact.Contact(str(container), 60)
    clock.now += 59
    assert not watched.is_lost()
    (tmp_path / contact.FILE).touch()
    clock.now += 2
    assert not watched.is_lost(), "there was a heartbeat meanwhile"
    clock.now += 61
    assert watched.is_lost()
    assert watched.sentence().endswith("for 60 s (orphan_ttl)")
    forever = contact.Contact(str(container), None)
    clock.now += 10**9
    assert (forever.is_lost(), forever.pause_s) == (False, None)


async def test_each_heartbeat_is_noted_for_supervisors(tmp_path: Path) -> None:
    options = parse_options({"master_host": "m", "work_dir": str(tmp_path), "orphan_ttl": "2h"})
    assert options.orphan_ttl == timedelta(hours=2)
    AgentMachine(options, Hardware(), FakeRuntime()).note_contact()
    assert (tmp_path / contact.FILE).exists()
    with pytest.raises(InvalidConfig, match="orphan_ttl: must be 1m or more"):
        parse_options({"master_host": "m", "orphan_ttl": "30s"})
