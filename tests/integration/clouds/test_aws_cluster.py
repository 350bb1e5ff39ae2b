"""A master with a pool on EC2: from an empty pool to a trial and back to nothing, killed at every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provisioner.providers.aws.notices import SPOT_NOTICE_S
from tests.fakes.ec2_machines import Ec2Machines
from tests.fakes.ec2_metadata import ec2_metadata
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, Ec2Server, ec2_server
from tests.interrupted import config_of, goes_on_elsewhere
from tests.real_cluster import RealCluster, eventually

MODEL = Path(__file__).parents[1] / "crash" / "model"
PROVIDER = {
    "type": "aws",
    "region": REGION,
    "zones": [f"{REGION}a"],
    "instance_type": "g4dn.xlarge",
    "instance_slots": 2,
    "image_id": UBUNTU_GPU,
    "boot_time": "5s",
}
POOL = {
    "pool_name": "compute",
    "max_instances": 2,
    "max_idle_agent_period": "2s",
    "provider": PROVIDER,
}
SEARCH: dict[str, Any] = {
    "name": "on EC2",
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
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2Server]:
    server = ec2_server()
    server.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["aws_secret_access_key"])
    yield server
    server.mend()


@pytest.fixture
def cluster(tmp_path: Path, server: Ec2Server) -> Iterator[RealCluster]:
    with RealCluster(tmp_path / "cluster", {"resource_pools": [POOL]}) as one:
        yield one


@pytest.fixture
def machines(tmp_path: Path, server: Ec2Server, cluster: RealCluster) -> Iterator[Ec2Machines]:
    folder = tmp_path / "cluster" / "machines"
    with (
        ec2_metadata() as metadata,
        Ec2Machines(server, folder, cluster.url, slots=2, metadata=metadata) as found,
    ):
        yield found


def asked(server: Ec2Server, action: str) -> bool:
    return bool(server.calls(action))


def tokens(server: Ec2Server) -> set[str]:
    return {call["ClientToken"] for call in server.calls("RunInstances")}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_from_nothing_to_trials_and_back_with_the_master_killed_at_every_step(
    server: Ec2Server, cluster: RealCluster, machines: Ec2Machines
) -> None:
    machines.boots.clear()
    server.rule("RunInstances", lost="reply")
    experiment = cluster.submit(SEARCH, MODEL)
    eventually("a launch was asked for", lambda: asked(server, "RunInstances"))
    cluster.kill_master()  # it may or may not have heard that the reply was lost

    cluster.start_master()
    eventually("the machine is known", lambda: len(cluster.instances()) == 1)
    cluster.kill_master()  # between the launch and its first hello

    machines.boots.set()
    cluster.start_master()
    (only,) = eventually("its agent joins", cluster.agents)
    eventually("trials run", lambda: cluster.trials(experiment))
    cluster.kill_master()  # in mid-trial

    server.rule("TerminateInstances", lost="reply")
    cluster.start_master()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    eventually("an end was asked for", lambda: asked(server, "TerminateInstances"))
    cluster.kill_master()  # it may or may not have ended

    cluster.start_master()
    eventually("nothing is left", lambda: not cluster.instances())
    assert machines.all() == {only: "terminated"}, "never two machines for one claim"
    assert len(tokens(server)) == 1
    assert not machines.living()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_interrupted_trial_goes_on_elsewhere_with_the_same_metrics(
    server: Ec2Server, tmp_path: Path
) -> None:
    """Its agent hears of it, nobody else: the next is bought in the other zone while the trial still runs."""
    zones = [f"{REGION}a", f"{REGION}b"]
    spot = {**POOL, "provider": {**PROVIDER, "zones": zones, "markets": ["spot"]}}
    folder = tmp_path / "cluster"
    with (
        RealCluster(folder, config_of(folder, spot)) as cluster,
        ec2_metadata() as metadata,
        Ec2Machines(
            server, folder / "machines", cluster.url, slots=2, metadata=metadata
        ) as machines,
    ):
        server.rule("TerminateInstances", code="UnauthorizedOperation", status=403, times=-1)
        told: list[dict[str, Any]] = []

        def interrupt(first: str) -> None:
            metadata.interrupt(first, SPOT_NOTICE_S)
            told.append(eventually("its notice is shown", lambda: noticed(cluster)))

        goes_on_elsewhere(cluster, machines.living, interrupt)
        first, second = (each["Placement"] for each in launches_in_order(server))
        assert first["AvailabilityZone"] != second["AvailabilityZone"]
        assert told[0]["leavesBecause"] == "spot interruption: terminate"
        eventually("a refused end is shown", lambda: still_billing(cluster))
        server.mend()


def launches_in_order(server: Ec2Server) -> list[dict[str, Any]]:
    reservations = server.client().describe_instances()["Reservations"]
    machines = [each for reservation in reservations for each in reservation["Instances"]]
    return sorted(machines, key=lambda each: each["LaunchTime"])


def noticed(cluster: RealCluster) -> dict[str, Any] | None:
    return next((each for each in cluster.instances() if each["leavesAt"]), None)


def still_billing(cluster: RealCluster) -> bool:
    said = "still billing: "
    reasons = [each["reason"] for each in cluster.instances() if each["reason"].startswith(said)]
    return any("UnauthorizedOperation" in reason for reason in reasons)
