"""The published command line, unmodified, at a live cluster. One process for many commands: it imports for a second."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import PATIENCE_S, RealCluster

ROOT = Path(__file__).parents[1]
COMPAT = ROOT / ".compat" / "bin"
SCRIPT = ROOT / "tests" / "compat" / "published_cli.py"
BINDINGS = ROOT / "tests" / "compat" / "published_bindings.py"

needs_published = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)


def published(
    cluster: RealCluster, *arguments: str, user: str = "admin", script: Path = SCRIPT
) -> subprocess.Popen[str]:
    """With a home of its own."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "DET_MASTER": cluster.url}
    environment["BROWSER"] = "true %s"  # opens nothing
    return subprocess.Popen(
        [COMPAT / "python", script, *arguments],
        env={**environment, **cluster.login_as(user)},
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_det(cluster: RealCluster, *words: str) -> str:
    """What `det` and the programs that it starts said, in a process of their own. It must succeed."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    path = f"{COMPAT}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [COMPAT / "det", "-m", cluster.url, *words],
        env={"HOME": str(home), "PATH": path, **cluster.login_as()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


class PublishedDet:
    """`det` of one user. A context manager."""

    def __init__(self, cluster: RealCluster, user: str = "determined") -> None:
        self._process = published(cluster, "run", user=user)

    def __enter__(self) -> PublishedDet:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def __call__(self, *words: str) -> str:
        """What it said. It must succeed."""
        done = self.run(*words)
        assert done["code"] == 0, done
        return str(done["said"])

    def run(self, *words: str) -> dict[str, Any]:
        """`code`, `said` and `crash`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))
