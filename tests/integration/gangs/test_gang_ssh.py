"""What launchers that use ssh find in the containers of a gang on two agents."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.real_cluster import RealCluster

MODEL = Path(__file__).parent / "model"
CONFIG = {
    "name": "peers",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss", "max_length": 1},
    "resources": {"slots_per_trial": 2},
    "max_restarts": 0,
}


@pytest.mark.skipif(
    shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="sshd is not installed"
)
def test_containers_of_one_gang_log_in_to_each_other_and_nobody_else_does(tmp_path: Path) -> None:
    with RealCluster(tmp_path, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        for node in ("node-a", "node-b"):
            cluster.start_agent(node, slots=1)
        experiment = cluster.submit(CONFIG, MODEL)
        ended = cluster.wait(experiment)
        (trial,) = cluster.trials(experiment)
        log = cluster.logs_of(trial["id"])
    assert "own key: from the peer" in log, log
    assert "other key: " in log
    assert "Permission denied (publickey)" in log
    assert "other host: Host key verification failed." in log
    assert ended["state"] == "STATE_COMPLETED", log
