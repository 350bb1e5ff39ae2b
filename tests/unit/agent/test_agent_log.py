"""What an agent prints: events as the master's, and nothing secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOKEN = "a-join-token-that-nobody-may-see"


@pytest.mark.slow
def test_agents_log_like_the_master_and_no_secret(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.touch(mode=0o600)
    config.write_text(
        f"master_url: http://127.0.0.1:1\njoin_token: {TOKEN}\nagent_id: node-1\n"
        f"artificial_slots: 1\nwork_dir: {tmp_path / 'work'}\nlog: {{level: trace}}\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DET_")}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "agent_bootstrap.agent", "--config-file", str(config)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as agent:
        assert agent.stderr is not None
        said = []
        for line in agent.stderr:
            said.append(json.loads(line))
            if "no connection to the master" in line:
                break
        agent.terminate()
        rest = agent.stderr.read()
    assert agent.returncode == 0
    assert {"timestamp", "level", "logger", "event"} <= said[-1].keys()
    assert any(line["event"] == "agent node-1: 1 slot" for line in said)
    credential = (tmp_path / "work" / "credential").read_text().strip()
    for secret in (TOKEN, credential):
        assert secret not in json.dumps(said) + rest
