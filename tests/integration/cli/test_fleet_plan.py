"""`det fleet plan` against a real master with an embedded pool: it tells, and launches nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.integration.cli.shell import DET
from tests.real_cluster import RealCluster, embedded_pool

EXPERIMENT = """
name: planned
entrypoint: sleep 1
searcher: {name: random, metric: loss, max_trials: 6, max_concurrent_trials: 6}
resources: {slots_per_trial: 1}
"""


def test_a_plan_is_what_the_pool_would_launch_and_launches_nothing(tmp_path: Path) -> None:
    with RealCluster(tmp_path, {"resource_pools": [embedded_pool()]}) as cluster:
        file = tmp_path / "experiment.yaml"
        file.write_text(EXPERIMENT)
        said = subprocess.run(
            [DET, "-m", cluster.url, "fleet", "plan", "-f", str(file)],
            env={**os.environ, "HOME": str(tmp_path), **cluster.login_as()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 0, said.stderr
        lines = said.stdout.splitlines()
        assert lines[0] == "4 runs of 1 slot in pool compute: machines would be launched"
        assert "max_instances (2)" in lines[1]
        assert "Together 2 machines, 4.00 USD per hour" in lines
        fleet = cluster.client.fleet()
        assert (fleet["instances"], fleet["firstLaunchAt"]) == ([], None)
