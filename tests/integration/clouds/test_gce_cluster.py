"""A master with a pool on Compute Engine: from an empty pool to trials and back to nothing, killed at every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from master.wiring.gcp import ENDPOINT_VARIABLE
from tests.fakes.gce import FakeGce, Which, fake_gce
from tests.fakes.gce.machines import GceMachines
from tests.fakes.gce.metadata import gce_metadata
from tests.interrupted import config_of, goes_on_elsewhere
from tests.real_cluster import RealCluster, eventually

MODEL = Path(__file__).parents[1] / "crash" / "model"
PROVIDER = {
    "type": "gcp",
    "project": "acme-ml-1",
    "zone": "us-central1-a",
    "instance_type": {"machine_type": "a2-highgpu-2g"},
    "boot_time": "5s",
}
POOL = {
    "pool_name": "compute",
    "max_instances": 2,
    "max_idle_agent_period": "2s",
    "provider": PROVIDER,
}
SEARCH: dict[str, Any] = {
    "name": "on Compute Engine",
    "entrypoint": "python3 train.py",
    "searcher": {
        "name": "random",
        "metric": "loss",
        "max_trials": 2,
        "max_concurrent_trials": 2,
    },
    "hyperparameters": {"x": {"type": "double", "minval": 0.1, "maxval": 3.0}},
    "resources": {"resource_pool": "compute"},
    "max_restarts": 0,
}


@pytest.fixture
def gce(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGce]:
    with fake_gce() as fake:
        monkeypatch.setenv(ENDPOINT_VARIABLE, f"{fake.url}/compute/v1/")
        yield fake


@pytest.fixture
def cluster(tmp_path: Path, gce: FakeGce) -> Iterator[RealCluster]:
    folder = tmp_path / "cluster"
    with RealCluster(folder, config_of(folder, POOL)) as one:
        yield one


@pytest.fixture
def machines(tmp_path: Path, gce: FakeGce, cluster: RealCluster) -> Iterator[GceMachines]:
    folder = tmp_path / "cluster" / "machines"
    with (
        gce_metadata() as metadata,
        GceMachines(gce.cloud, folder, cluster.url, slots=2, metadata=metadata) as found,
    ):
        yield found


def asked(gce: FakeGce, call: str) -> bool:
    with gce.cloud.lock:
        return call in gce.cloud.calls


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_master_killed_at_each_step_of_a_launch_buys_one_machine(
    gce: FakeGce, cluster: RealCluster, machines: GceMachines
) -> None:
    gce.faults.held.add(Which())
    gce.faults.lost_replies = 1
    experiment = cluster.submit(SEARCH, MODEL)
    eventually("a launch was asked for", lambda: asked(gce, "POST instances.bulkInsert"))
    cluster.kill_master()  # it may or may not have heard that the reply was lost

    cluster.start_master()
    eventually("the launch is known", lambda: len(cluster.instances()) == 1)
    cluster.kill_master()  # in the middle of the operation
    gce.cloud.deliver()

    cluster.start_master()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    eventually("nothing is left", lambda: not cluster.instances())
    assert len(machines.ever()) == 1, "never two machines for one claim"
    assert not gce.cloud.machines


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_master_killed_in_mid_trial_and_in_mid_end_leaves_no_machine(
    gce: FakeGce, cluster: RealCluster, machines: GceMachines
) -> None:
    experiment = cluster.submit(SEARCH, MODEL)
    eventually("trials run", lambda: cluster.agents() and cluster.trials(experiment))
    cluster.kill_master()  # in mid-trial

    gce.faults.lost_terminates = 1
    cluster.start_master()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    eventually("an end was asked for", lambda: asked(gce, "DELETE instances"))
    cluster.kill_master()  # it may or may not have heard of it

    cluster.start_master()
    eventually("nothing is left", lambda: not cluster.instances())
    assert len(machines.ever()) == 1, "never two machines for one claim"
    assert not gce.cloud.machines


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_preempted_trial_goes_on_elsewhere_with_the_same_metrics(
    cluster: RealCluster, machines: GceMachines
) -> None:
    assert machines.metadata is not None
    goes_on_elsewhere(cluster, machines.living, machines.metadata.preempt)
