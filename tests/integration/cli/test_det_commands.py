"""`det cmd` as a user of ours runs it, against a real master with a real agent: output, exit codes, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_cluster import PATIENCE_S, RealCluster, eventually

DET = str(Path(sys.executable).with_name("det"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("det-commands")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


def start(cluster: RealCluster, *words: str) -> subprocess.Popen[str]:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    return subprocess.Popen(
        [DET, "-m", cluster.url, "cmd", *words],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def det(cluster: RealCluster, *words: str) -> tuple[int, str, str]:
    process = start(cluster, *words)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def test_the_exit_code_says_how_it_ended(cluster: RealCluster) -> None:
    code, out, err = det(cluster, "run", "echo", "to stdout")
    assert (code, err.splitlines()[-1].partition(" ended: ")[2]) == (0, "success"), err
    assert any(line.endswith("|| to stdout") for line in out.splitlines()), out
    code, out, err = det(cluster, "run", "echo before; exit 7")
    assert code == 1
    assert "before" in out
    assert "7" in err.splitlines()[-1]


def test_a_hook_among_the_files_runs_before_the_program(
    cluster: RealCluster, tmp_path: Path
) -> None:
    (tmp_path / "startup-hook.sh").write_text("export GREETING=from-the-hook\n")
    code, out, err = det(cluster, "run", "-c", str(tmp_path), "echo $GREETING")
    assert code == 0, err
    assert "from-the-hook" in out


def test_what_waits_says_why_and_ctrl_c_leaves_it_alone(cluster: RealCluster) -> None:
    holder = det(cluster, "run", "-d", "sleep 600")[1].strip()
    eventually(
        "it holds the slot",
        lambda: cluster.client.command(holder)["command"]["state"] == "STATE_RUNNING",
    )
    waiting = start(cluster, "run", "echo", "my turn")
    assert waiting.stderr is not None
    launched = next(line for line in waiting.stderr if line.startswith("Launched command"))
    command_id = launched.split()[2]
    assert next(line for line in waiting.stderr if line.startswith("Waiting: "))
    code, listed, _ = det(cluster, "list", "--csv")
    assert code == 0
    assert any(command_id in line and "QUEUED" in line for line in listed.splitlines())
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 130
    assert f"det cmd kill {command_id}" in said
    assert det(cluster, "kill", holder)[0] == 0
    code, out, _ = det(cluster, "logs", "-f", command_id[:8])
    assert code == 0
    assert "my turn" in out


def test_a_crash_of_the_master_is_only_a_pause(cluster: RealCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # the task is another user
    program = "echo before; until [ -e /shared/gate ]; do sleep 0.05; done; echo after; exit 3"
    following = start(cluster, "run", "-v", f"{tmp_path}:/shared", program)
    assert following.stdout is not None
    said = next(line for line in following.stdout if line.endswith("|| before\n"))
    cluster.kill_master()
    cluster.start_master()
    (tmp_path / "gate").touch()
    out, err = following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 1, err
    assert said not in out
    assert out.count("|| after\n") == 1
    assert "3" in err.splitlines()[-1].partition(" ended: ")[2]
