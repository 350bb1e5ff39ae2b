"""A trial ends its own experiment through the published SDK, with nothing but its own session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from test_published_client import COMPAT, PUBLISHED_PYTHON

from tests.real_cluster import RealCluster

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)
MODEL = Path(__file__).parent / "own_experiment"
CONFIG = """
name: own
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: 1}
resources: {slots_per_trial: 1}
max_restarts: 0
preemption_timeout: 1
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("own")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1, options=PUBLISHED_PYTHON)
        yield cluster


def submit(cluster: RealCluster, *words: str) -> int:
    config = yaml.safe_load(CONFIG)
    return cluster.submit(config | {"entrypoint": " ".join((config["entrypoint"], *words))}, MODEL)


@pytest.mark.parametrize("action", ["cancel", "kill"])
def test_a_trial_ends_its_own_experiment(cluster: RealCluster, action: str) -> None:
    experiment = submit(cluster, action)
    assert cluster.wait(experiment)["state"] == "STATE_CANCELED"
    (trial,) = cluster.trials(experiment)
    if action == "cancel":  # killed, it has no time to say so
        assert f"asked to cancel experiment {experiment}" in cluster.logs_of(trial["id"])
