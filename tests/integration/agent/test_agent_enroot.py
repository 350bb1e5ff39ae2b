"""Tasks by Enroot, by its stand-in, from an agent that is an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from tests.fakes.image_tools import NET, PASSWORD, PRIVATE, USER, ImageTools, image_tools
from tests.jails import open_way_to
from windlass.base.errors import InvalidConfig

ORDINARY = 1234
ROOT = Path(__file__).parents[3]
BECOME = ROOT / "tests/integration/security/as_ordinary_user.py"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageTools:
    return image_tools(tmp_path / "programs", monkeypatch)


def run(folder: Path, *tasks: str, password: str = PASSWORD) -> list[list[Any]]:
    work_dir = folder / "agent"
    work_dir.mkdir(mode=0o700, parents=True)
    open_way_to(work_dir)
    prelude = []
    if os.geteuid() == 0:
        os.chown(work_dir, ORDINARY, ORDINARY)
        prelude = [sys.executable, "-I", "-S", str(BECOME), str(ORDINARY)]
    program = [sys.executable, "-P", "-m", "tests.integration.agent.enroot_task"]
    done = subprocess.run(
        [*prelude, *program, str(work_dir), USER, password, *tasks],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(work_dir)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_tasks_run_in_what_is_imported_once(tmp_path: Path, tools: ImageTools) -> None:
    looks = "grep -c :$(id -u): /etc/passwd; pwd; touch $HOME/a /tmp/b && echo wrote; exit 3"
    first, second = run(tmp_path, f"{NET} {looks}", f"{NET} echo again")
    assert first[:3] == [3, None, ""]
    assert first[3] == ["1", "/run/determined/workdir", "wrote"]
    assert second == [0, None, "", ["again"]]
    calls = [call[1] for call in tools.calls if call[0] == "enroot"]
    assert calls == ["version", "import", "create", "start", "start"]


def test_a_login_is_used_and_leaves_no_trace(tmp_path: Path, tools: ImageTools) -> None:
    assert run(tmp_path, f"{PRIVATE} echo in") == [[0, None, "", ["in"]]]
    assert PASSWORD not in json.dumps(tools.calls)
    files = [path for path in (tmp_path / "agent").rglob("*") if path.is_file()]
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
    ((code, failure, message, _),) = run(tmp_path / "b", f"{PRIVATE} true", password="no")
    assert (code, failure) == (None, "task_error")
    assert "check registry_auth" in message


@pytest.mark.skipif(os.geteuid() != 0, reason="shows what root is told")
def test_an_agent_that_is_root_is_told_who_may(tmp_path: Path, tools: ImageTools) -> None:
    options = parse_options({"master_url": "http://127.0.0.1:1", "work_dir": str(tmp_path)})
    with pytest.raises(InvalidConfig, match="its containers belong to one user"):
        open_runtime("enroot", RuntimeSetup(options=options))
