"""`det` as a researcher uses it: a cluster from nothing, an experiment, common mistakes, and gone again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.shell import DET, Shell
from tests.real_cluster import free_port

PUBLISHED = Path(__file__).parents[3] / ".compat" / "bin" / "det"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("user"), free_port())
    local = ("deploy", "local")
    up = ("--agents", "1", "--slots-per-agent", "2", "--no-gpu", "--port", str(shell.port))
    shell.said = shell.ok(*local, "cluster-up", *up, "--data-dir", str(shell.data))
    yield shell
    assert "running" in shell.ok(*local, "status", "--data-dir", str(shell.data)).lower()
    shell.ok(*local, "cluster-down", "--data-dir", str(shell.data))
    assert shell.processes() == []


def test_whoever_brings_it_up_is_logged_in(shell: Shell) -> None:
    assert "determined" in shell.ok("user", "whoami")
    assert "admin (administrator)" in shell.ok("-u", "admin", "user", "whoami")
    assert "determined" in shell.ok("-m", f"localhost:{shell.port}", "user", "whoami")
    cache = shell.home / ".config" / "windlass" / "auth.json"
    assert cache.stat().st_mode & 0o777 == 0o600


def test_the_first_password_is_in_a_file_and_nowhere_else(shell: Shell) -> None:
    file = shell.data / "master" / "initial-password"
    password = file.read_text().strip()
    assert str(file) in shell.said
    assert password not in shell.said
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(password) > 16
    assert not any(password in command for command in shell.processes())
    for path in shell.data.rglob("*"):
        if path.is_file() and path != file:
            assert password.encode() not in path.read_bytes(), path


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published client is not installed")
def test_the_printed_line_logs_the_published_client_in(shell: Shell) -> None:
    (line,) = [line for line in shell.said.splitlines() if line.startswith("Published client: ")]
    script = f"{line.partition(': ')[2]} && exec {PUBLISHED} user whoami"
    done = subprocess.run(
        ["sh", "-c", script],
        env={"HOME": str(shell.home / "published"), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "determined" in done.stdout


def test_a_second_start_has_its_users_already(shell: Shell) -> None:
    port = str(free_port())
    said = shell.wrong(
        *("deploy", "local", "cluster-up", "--port", port, "--initial-user-password", "Another1"),
        *("--data-dir", str(shell.data)),
    )
    assert "already running" in said


def test_what_is_there(shell: Shell) -> None:
    agents = shell.json("agent", "list")
    assert [len(a["slots"]) for a in agents] == [2]
    pools = shell.json("resource-pool", "list")
    assert [(p["name"], p["slotsAvailable"]) for p in pools] == [("default", 2)]
    assert "0.38.1" in shell.ok("version")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as others")
def test_tasks_of_a_cluster_of_root_are_somebody_else_who_reads_nothing_of_it(
    shell: Shell,
) -> None:
    (agent,) = shell.json("agent", "list")
    if agent["isolation"] not in ("bubblewrap", "namespaces"):
        pytest.skip("no namespaces here")
    secret = shell.data / "master" / "secret"
    look = f"id -u; cat {secret} {shell.data}/join-token && echo read it; ls {shell.data}"
    said = shell.run("cmd", "run", look)
    assert "65530" in said.stdout, said.stderr
    assert "read it" not in said.stdout
    for folder in (shell.data, shell.data / "master", shell.data / "agents" / "agent-0"):
        mount = f'bind_mounts=[{{"host_path": "{folder}", "container_path": "x"}}]'
        refused = shell.run("cmd", "run", "--config", mount, "ls x")
        assert refused.returncode != 0
        assert str(folder) in refused.stdout + refused.stderr
        assert "secret" not in refused.stdout


def test_an_experiment_from_create_to_logs(shell: Shell) -> None:
    said = shell.ok("experiment", "create", shell.config(), "model", "--follow-first-trial")
    assert "the end" in said
    experiment = newest(shell)
    shell.ok("experiment", "wait", experiment)
    assert "COMPLETED" in shell.ok("experiment", "describe", experiment)
    trials = shell.json("experiment", "list-trials", experiment)
    assert [t["totalBatchesProcessed"] for t in trials] == [40]
    assert "the end" in shell.ok("trial", "logs", str(trials[0]["id"]))
    assert "COMPLETED" in shell.ok("trial", "describe", str(trials[0]["id"]))
    assert "the end" in shell.ok("experiment", "logs", experiment)


def test_pause_activate_and_kill(shell: Shell) -> None:
    shell.ok("experiment", "create", shell.config(name="paused", entrypoint="sleep 600"), "model")
    experiment = newest(shell)
    shell.ok("experiment", "pause", experiment)
    assert shell.json("experiment", "list")[-1]["state"] == "STATE_PAUSED"
    shell.ok("experiment", "activate", experiment)
    shell.ok("experiment", "kill", experiment)
    assert shell.run("experiment", "wait", experiment).returncode == 1, "it was canceled"
    assert "CANCELED" in shell.ok("experiment", "list-trials", experiment)


def newest(shell: Shell) -> str:
    return str(max(e["id"] for e in shell.json("experiment", "list")))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_restart": 1}, 'did you mean "max_restarts"'),
        ({"max_restarts": "many"}, "<config>.max_restarts: expected integer"),
        ({"searcher": {"name": "random", "metric": "loss"}}, "max_trials is a required property"),
        ({"searcher": {"name": "simulated"}}, "<config>.searcher"),
        ({"resources": {"slots_per_trial": 64}}, "64"),
        ({"resources": {"slots_per_trial": 3}}, "3"),
        ({"resources": {"resource_pool": "nowhere"}}, 'there is no pool "nowhere"'),
        ({"entrypoint": None}, "entrypoint"),
    ],
)
def test_a_bad_configuration_creates_nothing(
    shell: Shell, changes: dict[str, Any], words: str
) -> None:
    before = len(shell.json("experiment", "list"))
    assert words in shell.wrong("experiment", "create", shell.config(**changes), "model")
    assert len(shell.json("experiment", "list")) == before


def test_malformed_yaml_says_where(shell: Shell) -> None:
    path = shell.home / "broken.yaml"
    path.write_text("name: [unclosed\nsearcher: {")
    said = shell.wrong("experiment", "create", str(path), "model")
    assert "line" in said


def test_common_mistakes_say_the_way_out(shell: Shell) -> None:
    assert "4711" in shell.wrong("experiment", "describe", "4711")
    assert "999" in shell.wrong("trial", "logs", "999")
    assert "no-such" in shell.wrong("experiment", "create", "no-such.yaml", "model")
    port = free_port()
    unreachable = shell.wrong("-m", f"http://127.0.0.1:{port}", "agent", "list")
    assert str(port) in unreachable
    assert "DET_MASTER" in unreachable or "--master" in unreachable


def test_a_wrong_password_and_an_expired_token(shell: Shell) -> None:
    done = subprocess.run(
        [DET, "agent", "list"],
        env={
            "HOME": str(shell.home / "nobody"),
            "PATH": os.environ["PATH"],
            "DET_MASTER": f"http://127.0.0.1:{shell.port}",
            "DET_USER": "determined",
            "DET_PASS": "wrong",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Wrong user name or password" in done.stderr
    expired = subprocess.run(
        [DET, "agent", "list"],
        env={
            "HOME": str(shell.home / "nobody"),
            "PATH": os.environ["PATH"],
            "DET_MASTER": f"http://127.0.0.1:{shell.port}",
            "DET_USER": "admin",
            "DET_USER_TOKEN": "0" * 64,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert expired.returncode == 1
    assert "Traceback" not in expired.stderr
