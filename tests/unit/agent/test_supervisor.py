"""What a supervisor does when a task is faster than it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from agent_bootstrap.supervisor.supervisor import Supervisor


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
