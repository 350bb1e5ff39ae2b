"""Launchers that start ranks on other nodes by ssh: each node has an address and a sshd of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MODELS, config_of

from tests.nodes import network
from tests.real_cluster import RealCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    for program in ("pdsh", "ssh", "sshd"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/bin") is None:
            pytest.skip(f"{program} is not installed")
    config = {
        "host": "0.0.0.0",  # noqa: S104  (the nodes come over a bridge)
        "task_container_defaults": {"dtrain_network_interface": "eth0"},
        "resource_pools": [{"pool_name": "default"}],
    }
    with (
        network(2) as net,
        RealCluster(tmp_path_factory.mktemp("nodes"), config) as cluster,
    ):
        for node in net.nodes:
            cluster.start_agent(node, slots=1, via=net.inside(node), host=net.master)
        yield cluster


def test_deepspeeds_launcher_starts_ranks_on_every_node(
    cluster: RealCluster, torch_python: Path
) -> None:
    if not list(torch_python.parents[1].glob("lib/python3*/site-packages/deepspeed")):
        pytest.skip("DeepSpeed is not installed")
    script = "python3 -m determined.launch.deepspeed python3 train.py deepspeed"
    # Once the ranks have ended, the launcher has 5 s before it ends itself with a signal: a busy machine needs more.
    config = config_of(torch_python, script, resources={"slots_per_trial": 2}, max_restarts=5)
    experiment = cluster.submit(config, MODELS / "ddp")
    ended = cluster.wait(experiment, patience_s=240)
    (trial,) = cluster.trials(experiment)
    log = cluster.logs_of(trial["id"])
    assert ended["state"] == "STATE_COMPLETED", log
    assert "rank 0 of 2, node 0" in log
    assert "rank 1 of 2, node 1" in log
