"""The launcher of commands as a real process, against a scripted master."""

from __future__ import annotations

import base64
import io
import json
import os
import pwd
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import WAIT_S, ScriptedMaster

from windlass.base.errors import InvalidArgument
from windlass.launch.command import arguments_of
from windlass.launch.entrypoint import login_shell

REPOSITORY = Path(__file__).parents[3]
TASK = "0a1b2c3d-0000-4000-8000-000000000001"


def archive(files: dict[str, str]) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o100755
            tar.addfile(member, io.BytesIO(text.encode()))
    return base64.b64encode(buffer.getvalue()).decode()


class CommandLaunch:
    """One launch: change `environ` and `files`, then `run()`."""

    def __init__(self, master: ScriptedMaster, root: Path) -> None:
        self.master = master
        self.root = root
        self.run_dir = root / "run"
        self.files: dict[str, str] = {}
        self.environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "DET_MASTER": master.url,
            "DET_CLUSTER_ID": "c1",
            "DET_AGENT_ID": "agent-0",
            "DET_SLOT_IDS": "[]",
            "DET_TASK_ID": TASK,
            "DET_ALLOCATION_ID": f"{TASK}.1",
            "DET_SESSION_TOKEN": "secret",
            "DET_TASK_TYPE": "COMMAND",
            "DET_RESOURCES_TYPE": "docker-container",
            "DET_RUN_DIR": str(self.run_dir),
            "DET_WORKDIR": str(self.run_dir / "workdir"),
        }
        master.on(
            "GET",
            f"/api/v1/tasks/{TASK}/context_directory",
            lambda _: (200, {"b64Tgz": archive(self.files) if self.files else ""}),
        )

    def start(self, *entrypoint: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "windlass.launch"],
            env={"DET_COMMAND_ENTRYPOINT": json.dumps(entrypoint)} | self.environ,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *entrypoint: str) -> tuple[int, str, str]:
        process = self.start(*entrypoint)
        out, err = process.communicate(timeout=WAIT_S)
        return process.returncode, out, err


@pytest.fixture
def launch(master: ScriptedMaster, tmp_path: Path) -> CommandLaunch:
    return CommandLaunch(master, tmp_path)


def test_several_words_are_run_as_they_are(launch: CommandLaunch) -> None:
    assert launch.run("echo", "$HOME; exit 3", "*") == (0, "$HOME; exit 3 *\n", "")


def test_one_string_is_for_the_shell(launch: CommandLaunch) -> None:
    assert launch.run("echo $((1 + 2)); exit 3") == (3, "3\n", "")


def test_the_files_that_came_with_it_are_in_the_working_directory(launch: CommandLaunch) -> None:
    launch.files = {"main.sh": "#!/bin/sh\ncat data/x; basename $PWD\n", "data/x": "content\n"}
    assert launch.run("./main.sh", "argument") == (0, "content\nworkdir\n", "")


def test_only_the_files_are_asked_for_no_rendezvous(launch: CommandLaunch) -> None:
    assert launch.run("true", "x")[0] == 0
    paths = [asked.path for asked in launch.master.asked]
    assert paths == [f"/api/v1/tasks/{TASK}/context_directory"]


def test_the_info_files_say_what_it_is_and_nothing_of_an_earlier_trial(
    launch: CommandLaunch,
) -> None:
    info = launch.run_dir / "info"
    info.mkdir(parents=True)
    for stale in ("trial.json", "rendezvous.json", "resources.json"):
        (info / stale).write_text("{}")
    assert launch.run("true")[0] == 0
    assert [path.name for path in info.iterdir()] == ["cluster.json"]
    content = json.loads((info / "cluster.json").read_text())
    assert (content["task_type"], content["task_id"]) == ("COMMAND", TASK)


def test_a_program_in_it_learns_where_it_runs(launch: CommandLaunch) -> None:
    program = "from windlass import get_cluster_info as i; print(i().task_type, i().agent_id)"
    assert launch.run(sys.executable, "-c", program) == (0, "COMMAND agent-0\n", "")


@pytest.mark.parametrize("given", [None, "/bin/mine"])
def test_its_shell_is_that_of_passwd_unless_the_user_says_another(
    given: str | None, launch: CommandLaunch
) -> None:
    if given is not None:
        launch.environ["SHELL"] = given
    own = given or pwd.getpwuid(os.getuid()).pw_shell
    assert launch.run("printenv", "SHELL") == (0, f"{own}\n", "")


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/false", "/bin/not-in-this-image", ""])
def test_what_nobody_can_log_in_with_is_no_shell(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = pwd.struct_passwd(("ann", "x", 1000, 1000, "", "/home/ann", shell))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: account)
    assert login_shell(1000) == ""


def test_who_has_no_account_has_no_shell() -> None:
    assert login_shell(2**31 - 3) == ""


def test_without_a_program_the_hooks_are_all(launch: CommandLaunch) -> None:
    launch.files = {"startup-hook.sh": "echo hook\n"}
    assert launch.run() == (0, "hook\n", "")


def test_hooks_are_sourced_cluster_first(launch: CommandLaunch) -> None:
    launch.run_dir.mkdir()
    (launch.run_dir / "dynamic-tcd-startup-hook.sh").write_text("export A=cluster\n")
    launch.files = {"startup-hook.sh": 'export B="$A then user"\n'}
    assert launch.run('echo "$B"') == (0, "cluster then user\n", "")
    assert len(launch.master.calls("GET", ".*/context_directory")) == 1


def test_a_failing_hook_ends_it_before_the_program(launch: CommandLaunch) -> None:
    launch.files = {"startup-hook.sh": "exit 7"}
    code, out, err = launch.run("echo", "never")
    assert (code, out) == (7, "")
    assert "startup-hook.sh ended with exit code" in err


@pytest.mark.parametrize(
    ("program", "code"), [("exit 3", 3), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
)
def test_the_exit_code_passes_through(program: str, code: int, launch: CommandLaunch) -> None:
    assert launch.run(program)[0] == code


@pytest.mark.slow
@pytest.mark.parametrize("resources", ["docker-container", "slurm-job"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_program(
    number: signal.Signals, resources: str, launch: CommandLaunch
) -> None:
    launch.environ["DET_RESOURCES_TYPE"] = resources
    program = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(40))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    process = launch.start(sys.executable, "-c", program)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 40


@pytest.mark.parametrize(
    ("environ", "entrypoint", "message"),
    [
        ({}, ("no-such-program", "x"), "'no-such-program' is not on PATH"),
        ({"DET_COMMAND_ENTRYPOINT": ""}, ("true",), "DET_COMMAND_ENTRYPOINT is not set"),
    ],
)
def test_what_cannot_start_says_so_in_one_line(
    environ: dict[str, str], entrypoint: tuple[str, ...], message: str, launch: CommandLaunch
) -> None:
    launch.environ |= environ
    code, out, err = launch.run(*entrypoint)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith("windlass launch: ")
    assert message in err


def test_an_archive_that_cannot_be_read_is_refused(launch: CommandLaunch) -> None:
    answer = {"b64Tgz": base64.b64encode(b"no archive").decode()}
    launch.master.on("GET", ".*/context_directory", answer)
    code, out, err = launch.run("echo", "never")
    assert (code, out) == (1, "")
    assert "not a readable archive" in err


@pytest.mark.parametrize(
    ("entrypoint", "message"),
    [
        ("{", "malformed"),
        ('"echo"', "list of strings"),
        ('["a", 1]', "list of strings"),
        ("[[]]", "list of strings"),
    ],
)
def test_only_a_list_of_strings_is_an_entrypoint(entrypoint: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        arguments_of({"DET_COMMAND_ENTRYPOINT": entrypoint})


@pytest.mark.parametrize(
    ("entrypoint", "arguments"),
    [
        (["a b; c"], ["/bin/sh", "-c", "a b; c"]),
        (["model_def:Trial"], ["/bin/sh", "-c", "model_def:Trial"]),
        (["a", "b c"], ["a", "b c"]),
    ],
)
def test_the_forms_of_an_entrypoint(entrypoint: Any, arguments: list[str]) -> None:
    assert arguments_of({"DET_COMMAND_ENTRYPOINT": json.dumps(entrypoint)}) == arguments
