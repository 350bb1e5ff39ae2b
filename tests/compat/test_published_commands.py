"""The published command line against a real master: run a command, follow it, look at it, kill it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_cluster import RealCluster, eventually

DET = Path(__file__).parents[2] / ".compat" / "bin" / "det"

pytestmark = pytest.mark.skipif(
    not DET.exists(), reason="the published client is not installed: run make test"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("published")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=2)
        yield cluster


def det(cluster: RealCluster, *arguments: str, code: int = 0) -> str:
    """Both streams. With a home of its own, so that it has no stored login."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [DET, "-m", cluster.url, *arguments],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def test_run_follows_the_command_to_its_end(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("in a file\n")
    said = det(cluster, "cmd", "run", "--context", str(tmp_path), "cat a.txt; exit 3")
    assert "Launched command" in said
    assert "|| in a file" in said
    assert "resources failed with non-zero exit code: " in said
    assert "Task log stream ended" in said
    assert "task failed with exit code 3" in det(cluster, "cmd", "list")


def test_a_detached_command_is_described_prioritised_and_killed(cluster: RealCluster) -> None:
    run = ("cmd", "run", "-d", "--config", "description=a long one", "echo up; sleep 600")
    id_ = det(cluster, *run).split()[-1]
    eventually("it runs", lambda: "|| up" in det(cluster, "task", "logs", id_))
    assert "RUNNING" in det(cluster, "cmd", "describe", id_[:8])
    det(cluster, "cmd", "set", "priority", id_, "7")
    assert "priority: 7" in det(cluster, "cmd", "config", id_)
    assert "a long one" in det(cluster, "task", "list")
    assert "a long one" in det(cluster, "job", "list")
    det(cluster, "cmd", "kill", id_)
    det(cluster, "cmd", "logs", "-f", id_)
    [command] = [
        c for c in json.loads(det(cluster, "cmd", "list", "--all", "--json")) if c["id"] == id_
    ]
    assert (command["state"], command["exitStatus"]) == (
        "TERMINATED",
        "killed: asked for by determined",
    )


def test_what_cannot_run_is_one_clear_line(cluster: RealCluster) -> None:
    said = det(cluster, "cmd", "run", "--config", "resources.slots=99", "true", code=1)
    assert "Requested 99 slots on one agent; the largest agent of pool 'default'" in said
    said = det(cluster, "cmd", "run", "--config", "slot=1", "true", code=1)
    assert 'additionalProperties "slot" not allowed' in said
