"""A cluster with running work is backed up, lost, and restored: the work goes on, on agents that were never told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.stopping.gated import Gated
from tests.real_cluster import WINDLASS, RealCluster, eventually


def master_command(cluster: RealCluster, *words: str) -> str:
    """What it printed."""
    command = [WINDLASS, "master", *words, "-c", str(cluster.config_file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_running_work_goes_on_after_a_restore(tmp_path: Path) -> None:
    storage = {"type": "shared_fs", "host_path": str(tmp_path / "storage")}
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage").chmod(0o1777)  # tasks run as another user
    with RealCluster(tmp_path, {"checkpoint_storage": storage}) as cluster:
        cluster.start_agent("a1")
        gated = Gated(cluster)
        experiment = gated.submit()
        eventually("the trials report", lambda: gated.reports(experiment))
        backup = str(tmp_path / "backup")
        said = master_command(cluster, "backup", backup, "--data-dir", str(cluster.data_dir))
        assert "backed up cluster" in said
        cluster.kill_master()
        cluster.start_master()  # the agent sees its epoch, which the backup does not know
        eventually("the agent is back", lambda: "a1" in cluster.agents())
        cluster.kill_master()
        cluster.data_dir.rename(tmp_path / "lost")
        said = master_command(cluster, "restore", backup, "--data-dir", str(cluster.data_dir))
        assert "restored cluster" in said
        cluster.start_master()
        gated.open()
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
        assert [t["restarts"] for t in cluster.trials(experiment)] == [0, 0]
