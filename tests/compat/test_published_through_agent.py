"""The unmodified published harness on a node that reaches its master through the agent alone, over ssh, by TLS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from test_published_client import COMPAT, PUBLISHED_PYTHON

from tests.real_cluster import RealCluster
from tests.sshd import MISSING, SSHD, login_node

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SSHD is None, reason=MISSING),
    pytest.mark.skipif(
        not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
    ),
]
MODEL = Path(__file__).parent / "own_experiment"
CONFIG = """
name: through
entrypoint: python3 train.py cancel
searcher: {name: single, metric: loss, max_length: 1}
resources: {slots_per_trial: 1}
max_restarts: 0
preemption_timeout: 1
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealCluster]:
    """Its agent has no other way than ssh."""
    with login_node(tmp_path / "at") as login:
        config = tmp_path / "ssh_config"
        config.write_text(f"IdentityFile {login.key}\nUserKnownHostsFile {login.known_hosts}\n")
        ssh = tmp_path / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
        settings = {
            "security": {"tls": {"self_signed": True}},
            "resource_pools": [{"pool_name": "default"}],
        }
        with RealCluster.self_signed(tmp_path / "cluster", settings) as cluster:
            ways = {"channels": ["ssh"], "ssh_login": login.sshd.spec}
            cluster.start_agent("node", slots=1, options={**PUBLISHED_PYTHON, **ways})
            yield cluster


def test_a_trial_of_the_published_harness(cluster: RealCluster) -> None:
    experiment = cluster.submit(yaml.safe_load(CONFIG), MODEL)
    assert cluster.wait(experiment)["state"] == "STATE_CANCELED"
    (trial,) = cluster.trials(experiment)
    assert f"asked to cancel experiment {experiment}" in cluster.logs_of(trial["id"])
    (agent,) = cluster.get("/api/v1/agents")["agents"]
    assert "reaches the master by ssh" in agent["notes"]
