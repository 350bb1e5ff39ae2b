"""Shells, by the published client, unmodified: a real sshd on a real agent, through the master alone."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_published_client import COMPAT

from tests.real_cluster import PATIENCE_S, RealCluster, eventually, listening

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("shells")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=2)
        yield cluster


def run(cluster: RealCluster, *words: str) -> str:
    """A program of the published client, or one beside it."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        words,
        env={
            "HOME": str(home),
            "PATH": f"{COMPAT}{os.pathsep}{os.environ['PATH']}",
            "DET_MASTER": cluster.url,
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def shell_of(cluster: RealCluster, shell_id: str) -> dict[str, Any]:
    return dict(cluster.client.session.get(f"/api/v1/shells/{shell_id}")["shell"])


def start(cluster: RealCluster, *options: str) -> str:
    """The id of a shell that is ready."""
    said = run(cluster, "det", "shell", "start", "--detach", *options)
    shell_id = said.split()[-1]
    task = f"/api/v1/tasks/{shell_id}"
    eventually(
        "it is ready",
        lambda: cluster.client.session.get(task)["task"]["allocations"][0]["isReady"],
    )
    return shell_id


def test_a_shell_from_its_start_to_its_end(cluster: RealCluster) -> None:
    variable = 'environment.environment_variables=["SAID=it\'s \\"here\\""]'
    shell_id = start(cluster, "--config", "resources.slots=1", "--config", variable)
    assert shell_of(cluster, shell_id)["state"] == "STATE_RUNNING"
    said = run(cluster, "det", "shell", "open", shell_id, "env; pwd; id -un")
    assert 'SAID=it\'s "here"' in said
    assert f"DET_TASK_ID={shell_id}" in said
    assert re.search(r"DET_SLOT_IDS=\[\d\]", said)
    port = re.search(r"SHELL_PORT=(\d+)", said)
    assert port
    assert listening(int(port[1])) == {"127.0.0.1"}, "other machines reach it by the master alone"
    assert shell_id in run(cluster, "det", "shell", "list")
    run(cluster, "det", "shell", "kill", shell_id)
    ended = eventually("it has ended", lambda: shell_of(cluster, shell_id)["exitStatus"])
    assert ended == "killed by determined"


def test_files_go_through_it_whole(cluster: RealCluster, tmp_path: Path) -> None:
    shell_id = start(cluster, "--config", "resources.slots=0")
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(40_000_000))
    shown = run(cluster, "det", "shell", "show-ssh-command", shell_id)
    command = next(line for line in shown.splitlines() if line.startswith("ssh "))
    *options, who = [word for word in shlex.split(command)[1:] if word != "-tt"]
    run(cluster, "scp", *options, str(sent), f"{who}:copy")
    run(cluster, "scp", *options, f"{who}:copy", str(back))
    assert hashlib.sha256(back.read_bytes()).digest() == hashlib.sha256(sent.read_bytes()).digest()
    run(cluster, "det", "shell", "kill", shell_id)
