"""Starting and ending detached processes, and the local cluster made of them."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, free_port
from typer.testing import CliRunner

from windlass.base.errors import Conflict
from windlass.cli import local_cluster
from windlass.cli.local_cluster import Plan, StartFailed, bring_down, bring_up, read_state
from windlass.cli.local_login import USERS, log_in
from windlass.cli.main import app
from windlass.cli.processes import (
    KILL_TREE,
    ProcessRecord,
    end,
    start_detached,
    supervisors_below,
)
from windlass.sdk.credentials import TokenCache

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]

STAND_IN = '''
"""Plays `windlass master ...` and `windlass agent ...`."""
import http.server, json, os, signal, sys
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if words[:2] == ["master", "join-token"]:
    print("join-secret")
elif words[:2] == ["master", "run"]:
    class Info(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
    http.server.HTTPServer(("127.0.0.1", int(option("--port"))), Info).serve_forever()
else:
    token = open(option("--join-token-file")).read().strip()
    print(json.dumps([token, option("--agent-id"), os.environ.get("DET_ARTIFICIAL_SLOTS")]), flush=True)
    signal.pause()
'''


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(local_cluster, "COMMAND", (sys.executable, str(script)))
    return Plan(data_dir=tmp_path / "data", port=free_port(), agents=2, slots_per_agent=4)


def reap(*records: ProcessRecord) -> None:
    for record in records:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(record.pid, 0)


def test_a_cluster_goes_up_and_down(plan: Plan) -> None:
    said: list[str] = []
    state = bring_up(plan, said.append)
    try:
        assert [r.name for r in state.alive] == ["master", "agent-0", "agent-1"]
        assert read_state(plan.data_dir) == state
        for name in ("join-token", "cluster.json"):
            assert stat.S_IMODE((plan.data_dir / name).stat().st_mode) == 0o600
        with pytest.raises(Conflict, match="already running"):
            bring_up(plan, said.append)
        status = CliRunner().invoke(
            app, ["deploy", "local", "status", "--json", "--data-dir", str(plan.data_dir)]
        )
        assert status.exit_code == 0
        assert [p["state"] for p in json.loads(status.stdout)["processes"]] == ["running"] * 3
    finally:
        ended = bring_down(plan.data_dir)
    reap(*state.processes)
    assert ended == ["agent-0", "agent-1", "master"]
    assert state.alive == []
    assert read_state(plan.data_dir) is None
    assert bring_down(plan.data_dir) == []


def test_a_master_that_fails_is_quoted_and_nothing_stays(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('error: port is taken')")
    monkeypatch.setattr(local_cluster, "COMMAND", command)
    with pytest.raises(StartFailed, match="The master ended: port is taken"):
        bring_up(plan, lambda _: None)
    assert read_state(plan.data_dir) is None


def test_without_a_cluster_status_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["deploy", "local", "status", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "No cluster" in result.stderr


def test_only_the_very_process_is_ended(tmp_path: Path) -> None:
    record = start_detached("sleeper", SLEEPER, tmp_path / "log", os.environ)
    try:
        assert record.is_alive
        another = replace(record, started=record.started + 1)
        before_reboot = replace(record, boot_id="another boot")
        assert end([another, before_reboot]) == []
        assert record.is_alive
    finally:
        assert end([record]) == ["sleeper"]
    reap(record)
    assert not record.is_alive


def test_supervisors_of_our_tasks_are_found_and_no_others(tmp_path: Path) -> None:
    script = tmp_path / "supervisor.py"
    script.write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGRTMIN + 1, lambda *_: os._exit(0))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / place / "containers" / "c1")],
            stdout=subprocess.PIPE,
        )
        for place in ("ours", "theirs")
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        found = supervisors_below(tmp_path / "ours")
        assert [(r.name, r.pid) for r in found] == [("c1", children[0].pid)]
        assert end(found, KILL_TREE) == ["c1"]
        assert children[0].wait() == 0
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_a_used_port_is_refused_with_who_uses_it(plan: Plan) -> None:
    from client_scripted_master import ScriptedMaster

    other = ScriptedMaster()
    other.on("GET", "/info", {"cluster_id": "c-1", "cluster_name": "lab"})
    busy = replace(plan, port=int(other.url.rpartition(":")[2]))
    try:
        with pytest.raises(Conflict, match=r"in use by another master \(cluster lab, not started"):
            bring_up(busy, lambda _: None)
        other.on("GET", "/info", lambda _: (200, b"hello"))
        with pytest.raises(Conflict, match=r"in use by another program: .*another --port"):
            bring_up(busy, lambda _: None)
    finally:
        other.close()
    assert not plan.data_dir.exists()


def test_a_login_under_the_other_name_of_this_machine_is_used(
    plan: Plan, master: ScriptedMaster
) -> None:
    """As after `det user change-password` at http://localhost: the first password is of no use any more."""
    plan = replace(plan, port=int(master.url.rpartition(":")[2]))
    master.on("GET", "/api/v1/me", {"user": {"username": "admin"}})
    cache = TokenCache()
    assert not log_in(plan)
    for user in USERS:
        cache.remember(f"http://localhost:{plan.port}", user, f"token of {user}")
    assert log_in(plan)
    assert [cache.token(plan.url, user) for user in USERS] == [
        "token of admin",
        "token of determined",
    ]
