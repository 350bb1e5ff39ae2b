"""An idle machine is stopped, outlives a killed master, and runs the next work as the same machine; real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, embedded_pool, eventually

MODEL = Path(__file__).parent / "model"
CONFIG = {
    "name": "again",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "resources": {"resource_pool": "compute", "slots_per_trial": 2},
    "max_restarts": 0,
}


def states(cluster: RealCluster) -> list[Any]:
    return [instance["state"] for instance in cluster.instances()]


@pytest.mark.slow
def test_the_same_machine_is_stopped_and_started_again(tmp_path: Path) -> None:
    pool = embedded_pool(stopped_agents={"max": 1})
    with RealCluster(tmp_path, {"resource_pools": [pool]}) as cluster:
        assert cluster.wait(cluster.submit(CONFIG, MODEL))["state"] == "STATE_COMPLETED"
        eventually("it is stopped", lambda: states(cluster) == ["stopped"])
        assert not cluster.hosts()
        (machine,) = cluster.instances()
        assert machine["usdPerHour"] == 0.0
        assert (cluster.data_dir / "instances" / "compute" / machine["id"] / "stopped").exists()

        cluster.kill_master()
        cluster.start_master()
        eventually("it is stopped still", lambda: states(cluster) == ["stopped"])

        again = cluster.submit(CONFIG, MODEL)
        assert cluster.wait(again)["state"] == "STATE_COMPLETED"
        eventually("it is stopped again", lambda: states(cluster) == ["stopped"])
        assert [each["id"] for each in cluster.instances()] == [machine["id"]]
        logs = cluster.logs_of(cluster.trials(again)[0]["id"])
        assert "ran on" in logs
