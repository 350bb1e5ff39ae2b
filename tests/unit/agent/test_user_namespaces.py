"""The process that Podman leaves behind for all containers of a user, by a stand-in of its name in a real namespace."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_bootstrap.agent.runtimes.commands.tool import ToolCall, run_quietly
from agent_bootstrap.agent.runtimes.commands.user_namespaces import is_shared
from tests.real_cluster import eventually

Started = subprocess.Popen[bytes]


@pytest.fixture(params=["podman", "catatonit"])
def podman(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What keeps the namespace: Podman itself, or catatonit where that is installed."""
    if subprocess.run(["unshare", "-U", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    for name in ("podman", "catatonit"):
        shutil.copy(shutil.which("sleep") or "", tmp_path / name)
    return str(tmp_path / request.param)


@pytest.fixture
def pause(podman: str) -> Iterator[Started]:
    """It has become the program, in a namespace of its own."""
    with subprocess.Popen(["unshare", "-Ur", podman, "600"]) as started:
        name = Path(f"/proc/{started.pid}/comm")
        eventually("it runs", lambda: name.read_text().strip() == Path(podman).name)
        yield started
        started.kill()


def beside(pause: Started, *within: str) -> Started:
    join = ("nsenter", "--user", "--preserve-credentials", f"--target={pause.pid}")
    started = subprocess.Popen([*join, *within, "sh", "-c", "echo; read end"], **_PIPES)  # type: ignore[call-overload]
    assert started.stdout is not None
    assert started.stdout.read(1) == b"\n"
    return started


_PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


def clear(podman: str, pause: Started, folder: Path) -> None:
    file = folder / "pause.pid"
    file.write_text(f"{pause.pid}\n")
    run_quietly(ToolCall(words=(str(Path(podman).with_name("podman")), "0"), leaves=file))


def test_what_podman_left_behind_is_ended(podman: str, pause: Started, tmp_path: Path) -> None:
    assert not is_shared(pause.pid)
    clear(podman, pause, tmp_path)
    assert pause.wait(30) == -9


@pytest.mark.parametrize("within", [(), ("unshare", "-Ur")])
def test_it_stays_while_a_container_of_another_job_needs_it(
    podman: str, pause: Started, tmp_path: Path, within: tuple[str, ...]
) -> None:
    """In the same namespace, or in one of its own that was made there."""
    with beside(pause, *within) as other:
        assert is_shared(pause.pid)
        clear(podman, pause, tmp_path)
        assert pause.poll() is None
        other.communicate(b"end\n")
    clear(podman, pause, tmp_path)
    assert pause.wait(30) == -9


def test_another_process_of_that_number_is_left_alone(podman: str, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        clear(podman, other, tmp_path)
        assert other.poll() is None
        other.kill()


HOST = """
import subprocess, sys
from pathlib import Path
from agent_bootstrap import host

host.END_LIMIT_S = float("inf")
left = subprocess.Popen(["unshare", "-Ur", sys.argv[1], "600"], start_new_session=True)
while Path(f"/proc/{left.pid}/comm").read_text().strip() not in sys.argv[1]:
    pass
machine = host.InstanceHost(Path("/nonexistent"))
machine._catch_signals()
machine._end_children()
"""


def test_a_host_does_not_wait_for_what_podman_left_in_its_job(podman: str) -> None:
    """PBS kills it after 10 seconds, and not the process, which is in a session of its own."""
    subprocess.run([sys.executable, "-P", "-c", HOST, podman], check=True, timeout=60)
