"""Two real masters on one database and one provider: one leads, and a claim never has two machines."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.queue.gated_work import Queue
from tests.real_cluster import WINDLASS, RealCluster, embedded_pool, eventually, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

THROTTLED = json.dumps([{"call": "launch", "kind": "throttled", "message": "RequestLimitExceeded"}])


class SecondMaster(RealCluster):
    """Of the same cluster, on another machine: a copy of the first one's data folder, and the same site."""

    def __init__(self, folder: Path, config: dict[str, Any], first: RealCluster) -> None:
        super().__init__(folder, config)
        leave = shutil.ignore_patterns("instances", "lock")
        shutil.copytree(first.data_dir, self.data_dir, ignore=leave, symlinks=True)
        (self.data_dir / "instances").symlink_to(first.data_dir / "instances")


def test_a_second_master_refuses_the_folder_until_the_first_is_gone(tmp_path: Path) -> None:
    """SQLite is in the folder."""
    pool = embedded_pool(max_idle_agent_period="1h")
    with RealCluster(tmp_path, {"resource_pools": [pool]}) as cluster:
        queue = Queue(cluster)
        experiment = queue.submit("work", priority=42, slots=2)
        queue.until({"work": 2})
        (machine,) = cluster.hosts()

        other = tmp_path / "other.yaml"
        other.write_text(yaml.safe_dump({"port": free_port(), "resource_pools": [pool]}))
        command = [WINDLASS, "master", "run", "-c", str(other), "--data-dir", str(cluster.data_dir)]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert refused.returncode == 1
        assert f"is in use by the master with process id {cluster.master_pid}" in refused.stderr
        assert queue.slots() == {"work": 2}, "the first one leads on"

        cluster.kill_master()
        cluster.start_master()
        queue.until({"work": 2})
        queue.open_gate("work")
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
        assert set(cluster.hosts()) == {machine}
        assert len(queue.runs(experiment)) == 1


def test_a_master_that_stood_still_while_another_took_over_ends_before_it_calls(
    tmp_path: Path, postgres_url: str
) -> None:
    config = {
        "db": {"url": postgres_url},
        "resource_pools": [embedded_pool(max_idle_agent_period="1h")],
    }
    with RealCluster(tmp_path / "one", config) as first:
        faults = first.data_dir / "instances" / "compute" / "faults.json"
        faults.parent.mkdir(parents=True)
        faults.write_text(THROTTLED)
        queue = Queue(first)
        experiment = queue.submit("work", priority=42, slots=2)
        queue.until_it_says("work", "RequestLimitExceeded")
        assert first.master is not None
        refused = beside(first, tmp_path / "refused", config)
        assert refused.returncode == 1
        assert f"another master leads this cluster: process {first.master_pid}" in refused.stderr
        assert "Stop it first" in refused.stderr
        first.master.send_signal(signal.SIGSTOP)
        try:
            with SecondMaster(tmp_path / "two", config, first) as second:
                first.master.send_signal(signal.SIGCONT)
                assert first.master.wait(timeout=60) != 0
                assert "now master" in first.log()
                faults.unlink()
                (machine,) = eventually("the second one launches", second.hosts)
                eventually("it has the answer", lambda: launches(second))
                second.kill_master()
                assert (launches(first), launches(second)) == (0, 1)

                # Its agent knows the address of the first one, under which a master is again from now on.
                first.start_master()
                queue.until({"work": 2})
                queue.open_gate("work")
                assert first.wait(experiment)["state"] == "STATE_COMPLETED"
                assert list(first.hosts()) == [machine], "one claim, one machine"
        finally:
            first.master.send_signal(signal.SIGCONT)


def beside(
    first: RealCluster, folder: Path, config: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    """A master that is started by mistake, with a copy of the data folder of one that lives."""
    copied = shutil.copytree(
        first.data_dir, folder / "data", ignore=shutil.ignore_patterns("instances", "lock")
    )
    other = folder / "other.yaml"
    other.write_text(yaml.safe_dump({"port": free_port(), **config}))
    command = [WINDLASS, "master", "run", "-c", str(other), "--data-dir", str(copied)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def launches(cluster: RealCluster) -> int:
    return sum(str(event["event"]).startswith("launched ") for event in cluster.events())
