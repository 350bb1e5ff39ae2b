"""The local cluster: which processes start and end, what is refused, and what is kept."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, free_port
from typer.testing import CliRunner

from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.processes import send, wait_gone
from windlass.cli.main import app
from windlass.deploy.local import cluster
from windlass.deploy.local.cluster import AgentSpec, LocalCluster, StartOptions
from windlass.deploy.local.folder import ClusterFolder
from windlass.deploy.local.login import USERS, log_in
from windlass.deploy.local.options import ClusterRecord, Options
from windlass.deploy.local.processes import KILL_TREE, end, start_detached, supervisors_below
from windlass.deploy.local.records import ProcessRecord
from windlass.deploy.local.services import Condition, StartFailed
from windlass.sdk.credentials import TokenCache

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]

STAND_IN = '''
"""Plays `windlass master ...` and `windlass agent ...`."""
import http.server, json, os, signal, sys
words = sys.argv[1:]
option = lambda name: words[words.index(name) + 1]
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if words[:2] == ["master", "pool-token"]:
    print("join-secret of " + words[2])
elif words[:2] == ["master", "config"]:
    if "refused" in open(option("--config")).read():
        sys.exit("error: <config>.refused: unknown key")
elif words[:2] == ["master", "run"]:
    class Info(http.server.BaseHTTPRequestHandler):
        def answer(self):
            self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
        def do_GET(self):
            self.answer()
        def do_POST(self):
            self.send_response(401); self.end_headers(); self.wfile.write(b"{}")
        def log_message(self, *_):
            pass
    os.makedirs(option("--data-dir"), exist_ok=True)
    open(option("--data-dir") + "/secret", "w").close()
    print(json.dumps([os.getpid(), *words]), flush=True)
    http.server.HTTPServer(("127.0.0.1", int(option("--port"))), Info).serve_forever()
else:
    token = open(option("--join-token-file")).read().strip()
    settings = [os.environ.get(n) for n in ("DET_ARTIFICIAL_SLOTS", "DET_SLOT_TYPE")]
    said = [token, option("--agent-id"), option("--master"), *settings]
    print(json.dumps([os.getpid(), *said]), flush=True)
    signal.pause()
'''


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(cluster, "COMMAND", (sys.executable, str(script)))
    local = LocalCluster(ClusterFolder(tmp_path / "data"))
    yield local
    records = [record for service in local.services.all() for record in service.records]
    local.down()
    assert [record for record in records if record.is_alive] == []


@pytest.fixture
def options() -> Options:
    return Options(port=free_port(), agents=2, slots=4)


def said_by(local: LocalCluster, name: str) -> list[str]:
    """What the stand-in that runs now has printed; those before it wrote to the same log."""
    process = local.services.of(name).process
    assert process is not None
    log = local.folder.log(name)
    while True:
        text = log.read_text() if log.exists() else ""
        for line in text[: text.rfind("\n") + 1].splitlines():
            pid, *said = json.loads(line)
            if pid == process.pid:
                return said
        time.sleep(0.01)


def kill(record: ProcessRecord | None) -> None:
    assert record is not None
    send(record.process, 9)
    assert wait_gone(record.process, 10)


def names(local: LocalCluster) -> list[str]:
    return [service.name for service in local.services.alive()]


def det(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["deploy", "local", *words])
    return done.exit_code, done.output


def test_a_cluster_goes_up_and_down(local: LocalCluster, options: Options) -> None:
    local.up(options, StartOptions())
    assert names(local) == ["master", "agent-0", "agent-1"]
    folder = local.folder
    for file in (folder.state_file, folder.join_token("default"), folder.log("master")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    for place in (folder.path, folder.services, folder.state_file.parent):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700, place
    code, said = det("status", "--json", "--data-dir", str(folder.path))
    assert code == 0
    assert [p["state"] for p in json.loads(said)["processes"]] == ["running"] * 3
    assert local.down() == (["agent-0", "agent-1", "master"], None)
    assert names(local) == []
    assert local.services.all() == []
    assert local.down() == ([], None)
    code, said = det("cluster-down", "--data-dir", str(folder.path))
    assert code == 0
    assert f"No cluster was running in {folder.path}\n" in said


def test_what_runs_is_not_started_again(local: LocalCluster, options: Options) -> None:
    local.up(options, StartOptions())
    before = [service.process for service in local.services.all()]
    with pytest.raises(Conflict, match=r"already running at .*--restart` restarts it"):
        local.up(options, StartOptions())
    assert [service.process for service in local.services.all()] == before


@pytest.mark.slow
def test_a_restart_takes_the_options_of_the_last_start_under_new_ones(
    local: LocalCluster, options: Options
) -> None:
    local.up(options, StartOptions())
    started = local.up(Options(slots=1), StartOptions(restart=True))
    assert started.options == Options(port=options.port, agents=2, slots=1)
    assert names(local) == ["master", "agent-0", "agent-1"]
    assert said_by(local, "agent-1")[3] == "1"
    assert local.up(Options(agents=1), StartOptions(restart=True)).options.slots == 1
    assert names(local) == ["master", "agent-0"]


@pytest.mark.slow
def test_a_restart_brings_back_what_a_reboot_has_ended(
    local: LocalCluster, options: Options
) -> None:
    local.up(options, StartOptions())
    local.agent_up(AgentSpec(name="extra", url=options.url))
    for service in local.services.all():
        kill(service.keeper)
        kill(service.process)
    assert names(local) == []
    local.up(Options(), StartOptions(restart=True))
    assert names(local) == ["master", "agent-0", "agent-1", "extra"]


def test_half_a_cluster_is_told_and_mended(local: LocalCluster, options: Options) -> None:
    local.up(options, StartOptions())
    master = local.services.of("master")
    kill(master.keeper)
    kill(master.process)
    with pytest.raises(Conflict, match=r"only in part at .* \(agent-0, agent-1\): .*mends it"):
        local.up(options, StartOptions())
    code, said = det("status", "--data-dir", str(local.folder.path))
    assert (code, said.count("running"), said.count("gone")) == (1, 3, 1), said
    local.up(Options(), StartOptions(restart=True))
    assert [s.condition for s in local.services.all()] == [Condition.RUNNING] * 3


def test_a_process_whose_keeper_was_killed_is_found_and_ended(
    local: LocalCluster, options: Options
) -> None:
    local.up(options, StartOptions())
    left = local.services.of("agent-0")
    kill(left.keeper)
    assert local.services.of("agent-0").condition is Condition.UNKEPT
    assert local.down()[0] == ["agent-0", "agent-1", "master"]
    assert left.process is not None
    assert not left.process.is_alive


def test_processes_of_release_0_1_are_known(local: LocalCluster, options: Options) -> None:
    """Its `cluster.json` names the processes themselves: they had no keepers."""
    record = start_detached("agent-0", SLEEPER, local.folder.log("agent-0"), os.environ)
    content = {
        "url": options.url,
        "processes": [
            {
                "name": record.name,
                "pid": record.pid,
                "started": record.started,
                "boot_id": record.boot_id,
            }
        ],
    }
    local.folder.state_file.write_text(json.dumps(content))
    with pytest.raises(Conflict, match="agent-0"):
        local.up(options, StartOptions())
    local.up(options, StartOptions(restart=True))
    assert not record.is_alive
    assert names(local) == ["master", "agent-0", "agent-1"]


def test_master_and_agents_by_themselves(local: LocalCluster, options: Options) -> None:
    local.up(options, StartOptions(), with_agents=False)
    assert names(local) == ["master"]
    local.agent_up(AgentSpec(name="a", url=options.url, pool="big", labels=("x",), gpu=False))
    token, name, url, _, kind = said_by(local, "a")
    assert (token, name, url, kind) == ("join-secret of big", "a", options.url, "cpu")
    with pytest.raises(Conflict, match="a is already running"):
        local.agent_up(AgentSpec(name="a", url=options.url))
    assert local.master_down() == (["master"], None)
    assert names(local) == ["a"]
    with pytest.raises(Conflict, match="a would have a master that does not know them"):
        local.master_down(delete_db=True)
    local.up(Options(), StartOptions(), with_agents=False)
    assert names(local) == ["master", "a"], "the master came back at the port that the agent knows"
    assert local.agents_down({"other"}) == []
    assert local.agents_down(None) == ["a"]


def test_an_agent_of_a_master_elsewhere_needs_a_token(
    local: LocalCluster, master: ScriptedMaster, tmp_path: Path
) -> None:
    with pytest.raises(
        InvalidArgument, match=r"windlass master join-token create POOL.*--join-token-file"
    ):
        local.agent_up(AgentSpec(name="a", url=master.url))
    (tmp_path / "token").write_text("theirs")
    local.agent_up(AgentSpec(name="a", url=master.url, join_token_file=tmp_path / "token"))
    assert said_by(local, "a")[:3] == ["theirs", "a", master.url]


def test_delete_db_keeps_what_it_takes_away(local: LocalCluster, options: Options) -> None:
    local.up(options, StartOptions())
    with pytest.raises(InvalidArgument, match="stop it first"):
        local.up(options, StartOptions(restart=True, delete_db=True))
    (local.folder.master / "mine").write_text("history")
    _, moved = local.down(delete_db=True)
    assert moved is not None
    assert (moved / "master" / "mine").read_text() == "history"
    assert not local.folder.master.exists()
    assert local.down(delete_db=True) == ([], None)
    local.up(options, StartOptions(delete_db=True, initial_user_password="Secret1x"))
    assert local.folder.password_file.read_text() == "Secret1x\n"


def test_a_first_password_is_for_the_first_start(local: LocalCluster, options: Options) -> None:
    local.folder.master.mkdir(parents=True)
    with pytest.raises(Conflict, match="--initial-user-password is for the first start"):
        local.up(options, StartOptions(initial_user_password="Secret1x"))


def test_a_master_that_fails_is_quoted_and_nothing_stays(
    local: LocalCluster, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('error: port is taken')")
    monkeypatch.setattr(cluster, "COMMAND", command)
    with pytest.raises(StartFailed, match="The master ended: port is taken"):
        local.up(options, StartOptions())
    assert local.services.all() == []


def test_a_bad_master_yaml_stops_nothing(
    local: LocalCluster, options: Options, tmp_path: Path
) -> None:
    local.up(options, StartOptions())
    before = [service.process for service in local.services.all()]
    bad = tmp_path / "bad.yaml"
    bad.write_text("refused: true")
    with pytest.raises(StartFailed, match=r"bad.yaml is refused: <config>.refused: unknown key"):
        local.up(Options(master_config=bad), StartOptions(restart=True))
    assert [service.process for service in local.services.all()] == before


def test_only_one_command_at_a_time(local: LocalCluster, options: Options) -> None:
    with local.folder.locked(), pytest.raises(Conflict, match="Another `det deploy local` command"):
        local.up(options, StartOptions())


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path, options: Options) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match=r"cannot be used .*give another with --data-dir"):
        LocalCluster(ClusterFolder(tmp_path / "file" / "x")).up(options, StartOptions())


@pytest.mark.parametrize(
    ("file", "content"), [("cluster.json", "{"), ("services/master.state", "[]")]
)
def test_a_damaged_record_is_named(local: LocalCluster, file: str, content: str) -> None:
    path = local.folder.path / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    (local.folder.path / "services").mkdir(exist_ok=True)
    (local.folder.path / "services" / "master.json").write_text("{}")
    code, said = det("status", "--data-dir", str(local.folder.path))
    assert code == 1
    assert f"{path} is damaged: remove it" in " ".join(said.split())
    path.unlink()


def test_without_a_cluster_status_says_so(tmp_path: Path) -> None:
    code, said = det("status", "--data-dir", str(tmp_path))
    assert code == 1
    assert "No cluster" in said


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


def test_a_used_port_is_refused_with_who_uses_it(local: LocalCluster) -> None:
    other = ScriptedMaster()
    other.on("GET", "/info", {"cluster_id": "c-1", "cluster_name": "lab"})
    busy = Options(port=int(other.url.rpartition(":")[2]))
    try:
        with pytest.raises(Conflict, match=r"in use by another master \(cluster lab, not started"):
            local.up(busy, StartOptions())
        other.on("GET", "/info", lambda _: (200, b"hello"))
        with pytest.raises(Conflict, match=r"in use by another program: .*another --port"):
            local.up(busy, StartOptions())
    finally:
        other.close()
    assert not local.folder.state_file.exists()


def test_a_host_that_is_none_is_refused_in_a_sentence(local: LocalCluster) -> None:
    with pytest.raises(InvalidArgument, match=r"--host no-such.invalid: this name cannot be"):
        local.up(Options(host="no-such.invalid"), StartOptions())


def test_a_login_under_the_other_name_of_this_machine_is_used(
    local: LocalCluster, master: ScriptedMaster
) -> None:
    """As after `det user change-password` at http://localhost: the first password is of no use any more."""
    options = Options(port=int(master.url.rpartition(":")[2]))
    master.on("GET", "/api/v1/me", {"user": {"username": "admin"}})
    cache = TokenCache()
    assert not log_in(local.folder, options)
    for user in USERS:
        cache.remember(f"http://localhost:{options.port}", user, f"token of {user}")
    assert log_in(local.folder, options)
    assert [cache.token(options.url, user) for user in USERS] == [
        "token of admin",
        "token of determined",
    ]


def test_what_is_remembered_is_what_was_given(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    given = Options(agents=3, storage_host_path=tmp_path / "s", gpu=False)
    ClusterRecord(url="http://x:1", options=given).write(folder)
    assert ClusterRecord.read(folder).options.given == given.given
    assert "port" not in json.loads(folder.state_file.read_text())["options"]
