"""What the launchers of shells and notebooks decide by themselves."""

from __future__ import annotations

import socket
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.base.formats.durations import parse_duration
from windlass.launch.services.idle_reports import Jupyter
from windlass.launch.services.idleness import REPORT_EVERY_S, Usage, is_idle, report_every_s
from windlass.launch.services.login_profile import write_profile
from windlass.launch.services.notebook import options
from windlass.launch.services.ports import LOOPBACK, hold
from windlass.launch.services.shell import passed, require_rights
from windlass.launch.services.task_end import end_told, follow_end, looks
from windlass.launch.task_folder import is_own

KERNEL = {"connections": 0, "execution_state": "idle", "last_activity": "2026-01-01T00:00:00Z"}
LATER = {**KERNEL, "last_activity": "2026-01-01T00:00:30Z"}


@pytest.mark.parametrize(
    ("kind", "now", "before", "idle"),
    [
        ("kernels_or_terminals", Usage(), None, True),
        ("kernels_or_terminals", Usage(kernels=[KERNEL]), None, False),
        ("kernels_or_terminals", Usage(terminals=[{"name": "1"}]), None, False),
        ("kernels_or_terminals", Usage(sessions=[{"id": "s"}]), None, False),
        ("kernel_connections", Usage(kernels=[KERNEL]), None, True),
        ("kernel_connections", Usage(kernels=[{**KERNEL, "connections": 1}]), None, False),
        ("activity", Usage(kernels=[KERNEL]), None, False),
        ("activity", Usage(kernels=[KERNEL]), Usage(kernels=[KERNEL]), True),
        ("activity", Usage(kernels=[LATER]), Usage(kernels=[KERNEL]), False),
        ("activity", Usage(terminals=[LATER]), Usage(terminals=[KERNEL]), False),
        (
            "activity",
            Usage(kernels=[{**KERNEL, "execution_state": "busy"}]),
            Usage([KERNEL]),
            False,
        ),
    ],
)
def test_what_counts_as_idle(kind: str, now: Usage, before: Usage | None, idle: bool) -> None:
    assert is_idle(kind, now, before) is idle


@pytest.mark.parametrize(
    ("timeout", "every_s"),
    [("0s", REPORT_EVERY_S), ("8s", 2.0), ("2m", REPORT_EVERY_S), ("24h", REPORT_EVERY_S)],
)
def test_reports_come_often_enough_for_a_short_time_out(timeout: str, every_s: float) -> None:
    assert report_every_s(parse_duration(timeout)) == every_s


def test_what_is_mounted_or_elsewhere_is_not_the_tasks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = tmp_path / "run"
    monkeypatch.setenv("DET_RUN_DIR", str(run_dir))
    mounts = "".join(
        f"1 0 8:1 / {place} rw - ext4 /dev/sda1 rw\n"
        for place in ("/", run_dir, run_dir / "workdir" / "mounted")
    )
    assert is_own(run_dir / "workdir", mounts)
    assert is_own(run_dir / "workdir" / "mounted2", mounts)
    assert not is_own(run_dir / "workdir" / "mounted" / "below", mounts)
    assert not is_own(tmp_path, mounts)


def test_logins_keep_the_path_unless_a_profile_was_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_RUN_DIR", str(tmp_path))
    write_profile(tmp_path, "/own/bin:/bin", tmp_path / "greeting")
    login = ["bash", "--login", "-c", "echo $PATH"]
    environment = {"HOME": str(tmp_path)}
    said = subprocess.run(login, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout == "/own/bin:/bin\n"
    (tmp_path / ".profile").rename(tmp_path / ".bash_login")
    write_profile(tmp_path, "/other", tmp_path / "greeting")
    assert not (tmp_path / ".profile").exists()


def test_sessions_get_the_environment_but_what_is_theirs() -> None:
    environment = {"A": "1", "HOME": "/h", "TERM": "x", "LC_ALL": "C", "BASH_FUNC_f%%": "() {"}
    assert list(passed(environment)) == ['environment="A=1"']


def test_a_port_is_held_until_the_service_listens() -> None:
    held = hold(0)
    assert held is not None
    with held:
        port = held.getsockname()[1]
        assert hold(port) is None, "another task that begins now"
        with socket.create_server((LOOPBACK, port)):
            assert hold(port) is None
    again = hold(port)
    assert again is not None
    again.close()


def test_services_listen_for_this_machine_alone_unless_the_agent_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jupyter = Jupyter(task_id="t", port=1, token="secret")
    assert options(jupyter)[0] == "--ServerApp.ip=127.0.0.1"
    monkeypatch.setenv("WINDLASS_LISTEN_ADDRESS", "0.0.0.0")  # noqa: S104
    assert options(jupyter)[0] == "--ServerApp.ip=0.0.0.0"
    assert not any("secret" in option for option in options(jupyter))


def test_a_shell_as_root_says_at_once_that_nobody_could_log_in() -> None:
    require_rights("Name:\tsh\nCapEff:\t00000000a80425fb\n")
    with pytest.raises(InvalidArgument, match=r"as root here.*link-with-agent-user"):
        require_rights("CapPrm:\t00000000a80425fb\nCapEff:\t0000000000000000\n")


def test_when_it_ends_is_told_with_what_is_kept() -> None:
    told = end_told("2026-11-24T18:00:00.000000Z")
    assert told.startswith("This task ends at 2026-11-24 18:00 UTC, with the time of its node. ")
    assert "bind_mounts" in told


def test_an_end_is_told_once_it_is_known_and_again_when_it_moves() -> None:
    known, moved = "2026-11-24T18:00:00.000000Z", "2026-11-24T17:00:00.000000Z"
    rounded = "2026-11-24T18:00:01.000000Z"
    answers: list[str | WindlassError | None] = [None, known, rounded, WindlassError("away")]
    answers += [None, known, moved, moved]
    following = iter(answers)

    def ask() -> str | None:
        answer = next(following)
        if isinstance(answer, WindlassError):
            raise answer
        return answer

    said: list[str] = []
    follow_end(None, ask, said.append, [0.0] * len(answers))
    assert said == [end_told(known), end_told(moved)]
    assert list(islice(looks(), 6)) == [5, 10, 20, 40, 60, 60]


@pytest.mark.parametrize(("told", "code"), [(True, 143), (False, 0)])
def test_a_service_that_was_told_to_end_has_not_succeeded(told: bool, code: int) -> None:
    """JupyterLab and sshd say so, also where their batch job is over."""
    service = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('ready', file=sys.stderr, flush=True)\n"
        "sys.stdin.read()\n"
    )
    launcher = (
        "import sys\n"
        "from types import SimpleNamespace\n"
        "from windlass.launch.entrypoint import run_entrypoint\n"
        "show = lambda output: print(output.readline().decode(), end='', flush=True)\n"
        "info = SimpleNamespace(task_type='NOTEBOOK')\n"
        "sys.exit(run_entrypoint(sys.argv[1:], None, info, watch=show))\n"
    )
    command = [sys.executable, "-c", launcher, sys.executable, "-c", service]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if told:
            process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == code


def as_sshd_reads(option: str) -> str:
    """What is between the quotes, and nothing may be after them: `opt_dequote` of OpenSSH."""
    assert option.startswith('environment="')
    text, at = "", len('environment="')
    while option[at] != '"':
        at += option[at : at + 2] == '\\"'
        text, at = text + option[at], at + 1
    assert at == len(option) - 1
    return text


@given(st.text(st.sampled_from('a\\" \n=,')))
def test_a_value_arrives_as_it_is_but_for_line_ends(value: str) -> None:
    options = list(passed({"NAME": value}))
    assert [as_sshd_reads(option) for option in options] == (
        [] if value.endswith("\\") else ["NAME=" + value.replace("\n", "\\n")]
    )
