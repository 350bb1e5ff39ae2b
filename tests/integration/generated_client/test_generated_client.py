"""A client that a generator makes from the description of a real master works against that master."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.real_cluster import RealCluster

GENERATOR = Path(__file__).parents[3] / ".generator" / "bin"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (GENERATOR / "openapi-python-client").exists(),
        reason="the client generator is not installed: run make test-slow",
    ),
]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    with RealCluster(tmp_path / "cluster", {"resource_pools": [{"pool_name": "default"}]}) as it:
        yield it


OMITTED = [
    "WARNING parsing GET /checkpoints/{checkpoint_uuid} within checkpoints.",
    "WARNING parsing GET /api/v1/windlass/boot within agents.",
]
"""The generator knows no archives: it leaves out what a download answers."""


def run(*command: str | Path, folder: Path) -> str:
    search = f"{GENERATOR}:{os.environ['PATH']}"  # the generator calls its own ruff
    environment = {"PATH": search, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_generated_client_talks_to_a_master(cluster: RealCluster, tmp_path: Path) -> None:
    cluster.start_agent("node", slots=1)
    description = tmp_path / "openapi.json"
    description.write_bytes(httpx2.get(f"{cluster.url}/openapi.json").content)
    said = run(
        GENERATOR / "openapi-python-client",
        *("generate", "--meta", "none"),
        *("--path", description, "--output-path", tmp_path / "generated"),
        folder=tmp_path,
    )
    assert [line for line in said.splitlines() if line.startswith("WARNING")] == OMITTED
    script = Path(__file__).with_name("calls.py")
    run(GENERATOR / "python", script, cluster.url, cluster.password, folder=tmp_path)
