"""A provider takes a machine back in mid-epoch: real processes from its notice to the same metrics elsewhere."""

from __future__ import annotations

from pathlib import Path

from tests.interrupted import config_of, goes_on_elsewhere
from tests.real_cluster import RealCluster, embedded_pool, eventually

NOTICE_S = 300


def test_training_moves_before_its_machine_dies_and_goes_on_with_the_same_metrics(
    tmp_path: Path,
) -> None:
    pool = embedded_pool(max_instances=2, max_idle_agent_period="1h")
    with RealCluster(tmp_path, config_of(tmp_path, pool)) as cluster:
        instances = cluster.data_dir / "instances" / "compute"

        def take_back(host: str) -> None:
            (instances / host / "notice").write_text(str(NOTICE_S))

        first = goes_on_elsewhere(
            cluster, lambda: set(cluster.hosts()), take_back, because="taken back by the site"
        )
        eventually("it is ended, for its work has left", lambda: first not in cluster.hosts())
