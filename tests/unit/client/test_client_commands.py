"""`det command`: what it sends, what it prints, how it ends."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import WAIT_S, Answer, Asked, ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from tests.fakes.client_cli import on_a_terminal
from windlass.cli.main import app
from windlass.cli.output.columns import short_ids

REPOSITORY = Path(__file__).parents[3]
ID = "0a1b2c3d-0000-4000-8000-000000000001"
OTHER = "0a1bffff-0000-4000-8000-000000000002"
COMMAND: dict[str, Any] = {
    "id": ID,
    "jobId": "0b1b2c3d-0000-4000-8000-000000000003",
    "description": "Command (calm-fox)",
    "state": "STATE_RUNNING",
    "username": "determined",
    "resourcePool": "default",
    "exitStatus": "",
    "startTime": "2026-01-02T03:04:05.678901Z",
}
CONFIG = {"entrypoint": ["echo", "hi"], "resources": {"slots": 2, "priority": 42}}
LINES = b'{"result": {"id": "1", "message": "one\\n"}}\n{"result": {"id": "2", "message": "two"}}\n'


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "determined", "admin": False}})
    master.on("POST", "/api/v1/commands", {"command": COMMAND, "config": CONFIG, "warnings": []})
    list_is(master, COMMAND)
    states_are(master, {"state": "STATE_TERMINATED", "exitStatus": "success"})
    master.on("GET", f"/api/v1/tasks/{ID}/logs", lambda _: (200, LINES))
    return master


def list_is(master: ScriptedMaster, *commands: dict[str, Any]) -> None:
    page = {"endIndex": len(commands), "total": len(commands)}
    master.on("GET", "/api/v1/commands", {"commands": list(commands), "pagination": page})


def states_are(master: ScriptedMaster, *changes: dict[str, Any]) -> None:
    """One answer after another; the last one stays."""
    left = [{"command": COMMAND | change, "config": CONFIG} for change in changes]

    def answer(_: Asked) -> Answer:
        return 200, left.pop(0) if len(left) > 1 else left[0]

    master.on("GET", f"/api/v1/commands/{ID}", answer)


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments])


def sent(master: ScriptedMaster) -> dict[str, Any]:
    return dict(master.calls("POST", "/api/v1/commands")[0].body)


def only_line(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_run_shows_the_output_and_how_it_ended(cluster: ScriptedMaster) -> None:
    result = det(cluster, "cmd", "run", "echo", "hi")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n"), result.output
    assert result.stderr.splitlines()[-2:] == [
        f"Launched command {ID} (Command (calm-fox))",
        f"Command {ID} ended: success",
    ]
    assert sent(cluster) == {"config": {"entrypoint": ["echo", "hi"]}, "files": []}
    assert cluster.calls("GET", f"/api/v1/tasks/{ID}/logs")[0].query == {"follow": ["true"]}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            "task failed: container failed with non-zero exit code: 3",
            "ended: task failed: container failed with non-zero exit code: 3",
        ),
        ("", "ended: no exit status"),
    ],
)
def test_run_fails_when_the_command_did(status: str, said: str, cluster: ScriptedMaster) -> None:
    states_are(cluster, {"state": "STATE_TERMINATED", "exitStatus": status})
    result = det(cluster, "command", "run", "false")
    assert (result.exit_code, result.stdout) == (1, "one\ntwo\n")
    assert result.stderr.splitlines()[-1].endswith(said)


def test_options_after_the_program_are_the_programs(cluster: ScriptedMaster) -> None:
    assert det(cluster, "cmd", "run", "-d", "ls", "-d", "--config", "x").exit_code == 0
    assert sent(cluster)["config"] == {"entrypoint": ["ls", "-d", "--config", "x"]}


def test_an_unknown_option_before_the_program_is_wrong_usage(cluster: ScriptedMaster) -> None:
    assert det(cluster, "cmd", "run", "--detatch", "ls").exit_code == 2
    assert cluster.asked == []


def test_detached_only_the_id_is_printed(cluster: ScriptedMaster) -> None:
    result = det(cluster, "cmd", "run", "--detach", "sleep 60")
    assert (result.exit_code, result.stdout) == (0, f"{ID}\n")
    assert sent(cluster)["config"] == {"entrypoint": ["sleep 60"]}
    assert cluster.calls("GET", ".*/logs") == []


def test_file_overrides_volumes_and_arguments_make_one_configuration(
    cluster: ScriptedMaster, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "entrypoint: date\nresources: {slots: 1}\nbind_mounts: [{host_path: /a, container_path: /a}]\n"
    )
    options = ["--config-file", str(config), "--config", "resources.slots=0", "-v", "/b:/c:d"]
    assert det(cluster, "cmd", "run", "-d", *options).exit_code == 0
    assert sent(cluster)["config"] == {
        "entrypoint": "date",
        "resources": {"slots": 0},
        "bind_mounts": [
            {"host_path": "/a", "container_path": "/a"},
            {"host_path": "/b", "container_path": "/c:d"},
        ],
    }
    assert det(cluster, "cmd", "run", "-d", *options, "uptime").exit_code == 0
    body = cluster.calls("POST", "/api/v1/commands")[1].body
    assert body["config"]["entrypoint"] == ["uptime"]


def test_context_and_includes_travel_with_the_command(
    cluster: ScriptedMaster, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.py").write_text("print(1)")
    (tmp_path / "extra.txt").write_text("x")
    include = ["-i", str(tmp_path / "extra.txt")]
    both = ["-c", str(tmp_path / "code"), *include]
    assert det(cluster, "cmd", "run", "-d", *both, "python3", "main.py").exit_code == 0
    files = {f["path"]: base64.b64decode(f["content"]) for f in sent(cluster)["files"]}
    assert files == {"main.py": b"print(1)", "extra.txt": b"x"}
    assert det(cluster, "cmd", "run", "-d", *include, "cat", "extra.txt").exit_code == 0
    second = cluster.calls("POST", "/api/v1/commands")[1].body
    assert [f["path"] for f in second["files"]] == ["extra.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Nothing to run: give a program (det cmd run"),
        (["-v", "/only", "ls"], "--volume /only: expected /host/path:/task/path"),
        (["--config", "slots", "ls"], "--config slots: expected KEY=VALUE"),
        (["--config", "bind_mounts=x", "-v", "/a:/b", "ls"], "bind_mounts: expected a list"),
        (
            ["-c", "/no/such/folder", "ls"],
            "/no/such/folder: expected the directory of the model code",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_sent(
    arguments: list[str], message: str, cluster: ScriptedMaster
) -> None:
    assert message in only_line(det(cluster, "cmd", "run", *arguments))
    assert cluster.calls("POST", "/api/v1/commands") == []


def test_an_empty_configuration_runs_the_startup_hooks_only(
    tmp_path: Path, cluster: ScriptedMaster
) -> None:
    config = tmp_path / "empty.yaml"
    config.write_text("{}\n")
    assert det(cluster, "cmd", "run", "-d", "--config-file", str(config)).exit_code == 0
    assert "entrypoint" not in sent(cluster)["config"]


def test_the_masters_refusal_is_one_line(cluster: ScriptedMaster) -> None:
    answer = {"error": {"code": 3, "error": "invalid command configuration: <config>: no"}}
    cluster.on("POST", "/api/v1/commands", lambda _: (400, answer))
    assert only_line(det(cluster, "cmd", "run", "ls")).endswith("configuration: <config>: no")


def test_warnings_are_said_in_words(cluster: ScriptedMaster) -> None:
    warnings = ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"]
    answer = {"command": COMMAND, "warnings": warnings, "configWarnings": ["debug has no effect"]}
    cluster.on("POST", "/api/v1/commands", answer)
    result = det(cluster, "cmd", "run", "-d", "ls")
    assert result.stdout == f"{ID}\n"
    assert "warning: the command requests more slots than the cluster has" in result.stderr
    assert "warning: debug has no effect" in result.stderr


def test_a_reason_that_lasts_is_said_once(cluster: ScriptedMaster) -> None:
    waiting = {"state": "STATE_QUEUED", "waitingReason": "queued behind 3 jobs"}
    ended = {"state": "STATE_TERMINATED", "exitStatus": "success"}
    states_are(cluster, waiting, waiting, waiting, ended)
    result = det(cluster, "cmd", "run", "ls")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    assert result.stderr.count("Waiting: queued behind 3 jobs") == 1
    run = f"3.{OTHER}.1"
    tasks = {run: {"allocationId": run, "name": "Trial 9 (Experiment 3)"}}
    cluster.on("GET", "/api/v1/tasks", {"allocationIdToSummary": tasks})
    waiting = {"state": "STATE_QUEUED", "waitingReason": f"starts when {run} has given back slots"}
    states_are(cluster, waiting, waiting, ended)
    named = "Waiting: starts when Trial 9 (Experiment 3) has given back slots"
    assert named in det(cluster, "cmd", "run", "ls").stderr.splitlines()


def test_the_end_is_waited_for_after_the_log(cluster: ScriptedMaster) -> None:
    running = {"state": "STATE_RUNNING"}
    states_are(cluster, running, running, {"state": "STATE_TERMINATED", "exitStatus": "success"})
    result = det(cluster, "cmd", "run", "ls")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        0,
        f"Command {ID} ended: success",
    )


@pytest.mark.slow
def test_an_interrupt_leaves_the_command_running_and_says_how_to_end_it(
    cluster: ScriptedMaster,
) -> None:
    over = threading.Event()

    def held(_: Asked) -> Answer:
        over.wait(WAIT_S)
        return 200, b""

    cluster.on("GET", f"/api/v1/tasks/{ID}/logs", held)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "windlass", "-m", cluster.url, "cmd", "run", "ls"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        cluster.wait_for("GET", f"/api/v1/tasks/{ID}/logs")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        over.set()
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert f"Detached; command {ID} keeps running. " in err
    assert f"Stop it: `det cmd kill {ID}`" in err
    assert "Traceback" not in err
    assert cluster.calls("POST", ".*/kill") == []


def test_lists_are_of_the_user_unless_all_are_asked_for(cluster: ScriptedMaster) -> None:
    assert det(cluster, "cmd", "list").exit_code == 0
    assert det(cluster, "cmd", "ls", "--all").exit_code == 0
    own, all_ = cluster.calls("GET", "/api/v1/commands")
    assert own.query["users"] == ["determined"]
    assert "users" not in all_.query


def test_every_form_of_the_list(cluster: ScriptedMaster) -> None:
    waiting = {"id": OTHER, "state": "STATE_QUEUED", "waitingReason": "queued behind 3 jobs"}
    list_is(cluster, COMMAND, COMMAND | waiting | {"startTime": "2025-01-01T00:00:00Z"})
    rows = det(cluster, "cmd", "list").stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["ID", OTHER, ID]
    assert rows[1].endswith("queued behind 3 jobs")
    assert det(cluster, "cmd", "list", "-q").stdout == f"{OTHER}\n{ID}\n"
    assert json.loads(det(cluster, "cmd", "list", "--json").stdout)[1] == COMMAND
    assert len(det(cluster, "cmd", "list", "--csv").stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["--sort-by", "id"], ID),
        (["--sort-by", "id", "--order-by", "desc"], OTHER),
        (["--sort-by", "exitStatus"], ID),
        (["--order-by", "desc"], ID),
    ],
)
def test_the_order_of_the_list(arguments: list[str], first: str, cluster: ScriptedMaster) -> None:
    later = {"id": OTHER, "exitStatus": "success", "startTime": "2025-01-01T00:00:00Z"}
    list_is(cluster, COMMAND | later, COMMAND)
    assert det(cluster, "cmd", "ls", "-q", *arguments).stdout.splitlines()[0] == first
    assert det(cluster, "cmd", "ls", "--sort-by", "colour").exit_code == 2


def test_describe_and_config(cluster: ScriptedMaster) -> None:
    states_are(cluster, {"state": "STATE_QUEUED", "waitingReason": "queued behind 3 jobs"})
    said = det(cluster, "cmd", "describe", ID).stdout
    assert "QUEUED" in said
    assert "queued behind 3 jobs" in said
    assert '["echo", "hi"]' in said
    assert COMMAND["jobId"] in said
    assert json.loads(det(cluster, "cmd", "describe", ID, "--json").stdout)["config"] == CONFIG
    assert det(cluster, "cmd", "config", ID).stdout.splitlines()[:2] == ["entrypoint:", "- echo"]
    assert json.loads(det(cluster, "cmd", "config", ID, "--json").stdout) == CONFIG
    assert cluster.calls("GET", "/api/v1/commands") == []


def test_logs_of_a_command(cluster: ScriptedMaster) -> None:
    assert det(cluster, "cmd", "logs", ID).stdout == "one\ntwo\n"
    assert det(cluster, "cmd", "logs", ID, "--tail", "2").stdout == "two\none\n"
    assert det(cluster, "cmd", "logs", ID, "-f").exit_code == 0
    queries = [asked.query for asked in cluster.calls("GET", f"/api/v1/tasks/{ID}/logs")]
    assert queries == [
        {},
        {"limit": ["2"], "orderBy": ["ORDER_BY_DESC"]},
        {"follow": ["true"]},
    ]
    assert "Use only one" in only_line(det(cluster, "cmd", "logs", ID, "-f", "--tail", "1"))


def test_kill_takes_several_and_stops_at_the_first_failure_unless_forced(
    cluster: ScriptedMaster,
) -> None:
    list_is(cluster, COMMAND, COMMAND | {"id": OTHER})
    missing = {"error": {"code": 5, "error": f"command '{ID}' not found"}}
    cluster.on("POST", f"/api/v1/commands/{ID}/kill", lambda _: (404, missing))
    cluster.on("POST", f"/api/v1/commands/{OTHER}/kill", {})
    assert only_line(det(cluster, "cmd", "kill", ID, OTHER)).endswith("not found")
    assert cluster.calls("POST", f"/api/v1/commands/{OTHER}/kill") == []
    forced = det(cluster, "cmd", "kill", "-f", ID, "0a1bf")
    assert forced.exit_code == 0
    assert forced.stderr.splitlines()[-2:] == [
        f"Skipped {ID}: command '{ID}' not found",
        f"Killed command {OTHER}",
    ]


def test_set_priority(cluster: ScriptedMaster) -> None:
    cluster.on("POST", f"/api/v1/commands/{ID}/set_priority", {"command": COMMAND})
    assert det(cluster, "cmd", "set", "priority", "0a1b2", "10").exit_code == 0
    assert cluster.calls("POST", ".*/set_priority")[0].body == {"priority": 10}
    assert det(cluster, "cmd", "set", "priority", ID, "100").exit_code == 2


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        ([], []),
        ([ID], ["0a1b2c3d"]),
        ([ID, OTHER], ["0a1b2c3d", "0a1bffff"]),
        (["0a1b2c3d-01", "0a1b2c3d-02"], ["0a1b2c3d-01", "0a1b2c3d-02"]),
        ([ID, ID], ["0a1b2c3d", "0a1b2c3d"]),
    ],
)
def test_short_ids_tell_the_listed_commands_apart(ids: list[str], short: list[str]) -> None:
    assert short_ids(ids) == short


@pytest.mark.slow
def test_the_list_fits_a_terminal_of_80_columns(cluster: ScriptedMaster) -> None:
    failed = {"state": "STATE_TERMINATED", "exitStatus": "task failed with exit code 7"}
    list_is(cluster, COMMAND, COMMAND | failed | {"id": OTHER})
    lines = on_a_terminal(cluster, "cmd", "list", columns=80)
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert [line.split()[0] for line in lines if line.startswith("0a1b")] == [ID[:8], OTHER[:8]]


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("0a1b", f"2 command ids begin with '0a1b': {ID}, {OTHER}"),
        ("ffff", "command 'ffff' not found: see `det cmd list -a`"),
        ("", "command '' not found: see `det cmd list -a`"),
    ],
)
def test_a_prefix_must_mean_one_command(prefix: str, message: str, cluster: ScriptedMaster) -> None:
    list_is(cluster, COMMAND, COMMAND | {"id": OTHER})
    assert message in only_line(det(cluster, "cmd", "kill", prefix))
    assert cluster.calls("POST", ".*/kill") == []
