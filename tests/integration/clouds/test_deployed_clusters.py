"""The master.yaml that `det deploy` renders, to the letter, on the doubles of both clouds: machines boot by their own
user data, trials run in containers, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from master.wiring.gcp import ENDPOINT_VARIABLE
from provisioner.providers.aws.account import UBUNTU_CPU
from provisioner.providers.aws.account import UBUNTU_GPU as UBUNTU_WITH_DRIVER
from tests.fakes.booting_machines import BootingMachines, both_clouds
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, Ec2Server, ec2_server
from tests.fakes.gce import FakeGce, fake_gce
from tests.fakes.gcs_server import gcs_server
from tests.podman import IMAGE, Podman
from tests.real_cluster import RealCluster, eventually
from tests.stores import administer
from tests.unit.deploy.test_cloud_rendering import MADE, plan_of, whole_config

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts of the master's own need root"),
]
MODEL = Path(__file__).parents[1] / "containers" / "model"
BUCKET = "det-lab-checkpoints"
COMMON: dict[str, Any] = {
    "database": "local",
    "max_idle_agent_period": "2s",
    "max_dynamic_agents": "1",
    "cpu_env_image": IMAGE,
    "gpu_env_image": IMAGE,
}
SEARCH: dict[str, Any] = {
    "name": "on a cluster of det deploy",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "random", "metric": "loss", "max_trials": 2, "max_concurrent_trials": 2},
    "hyperparameters": {"x": 1},
    "max_restarts": 0,
}
WITH_SOCKET_OF_DATABASE = (
    "mount -t tmpfs tmpfs /run && mkdir /run/postgresql && "
    'mount --bind "$0" /run/postgresql && exec "$@"'
)


@dataclass
class Cloud:
    """One of the doubles, with what Terraform would have made there."""

    options: Mapping[str, Any]
    """Of `det deploy up`."""
    made: Mapping[str, str]
    environment: Mapping[str, str]
    """Of the master and of tasks: where the doubles are, and nothing else."""
    stored: Callable[[], list[str]]
    """Keys in the bucket."""


def on_ec2(server: Ec2Server, stack: ExitStack) -> Cloud:
    for path in (UBUNTU_WITH_DRIVER, UBUNTU_CPU):
        names = {"arch": "x86_64", "canonical_arch": "amd64"}
        server.public_parameter(path.format(**names), UBUNTU_GPU)
    ec2, iam, s3 = (server.client(name) for name in ("ec2", "iam", "s3"))
    (subnet, *_) = ec2.describe_subnets()["Subnets"]
    group = ec2.create_security_group(GroupName="det-lab", Description="x", VpcId=subnet["VpcId"])
    role = iam.create_instance_profile(InstanceProfileName="det-lab-agent")["InstanceProfile"]
    s3.create_bucket(Bucket=BUCKET)
    stack.callback(ec2.delete_security_group, GroupId=group["GroupId"])
    stack.callback(iam.delete_instance_profile, InstanceProfileName="det-lab-agent")
    return Cloud(
        options={"region": REGION, "compute_agent_instance_type": "g4dn.12xlarge"},
        made={
            "agent_subnets": json.dumps([subnet["SubnetId"]]),
            "agent_security_group": group["GroupId"],
            "agent_instance_profile": role["Arn"],
        },
        environment={
            "AWS_ENDPOINT_URL": server.url,
            **{name.upper(): value for name, value in KEYS.items()},
        },
        stored=lambda: [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]],
    )


def on_compute_engine(gce: FakeGce, stack: ExitStack) -> Cloud:
    storage = stack.enter_context(gcs_server())
    storage.create(BUCKET)
    return Cloud(
        options={
            "project_id": "acme-ml-1",
            "region": "us-central1",
            "zone": "us-central1-a",
            "no_filestore": True,
            "aux_agent_instance_type": "n2-standard-4",
            "compute_agent_instance_type": "n1-standard-8",
            "gpu_num": "2",
        },
        made={
            "network": "training",
            "subnetwork": "training-a",
            "agent_service_account": "agents@acme.iam.gserviceaccount.com",
        },
        environment={
            ENDPOINT_VARIABLE: f"{gce.url}/compute/v1/",
            "STORAGE_EMULATOR_HOST": storage.url,
        },
        stored=lambda: storage.keys(BUCKET),
    )


@pytest.fixture
def socket_folder(postgres_server: str) -> Iterator[Path]:
    """Of a PostgreSQL as the master's machine has it: a database `determined` of role `windlass`."""
    (host,) = parse_qs(urlsplit(postgres_server).query).get("host", [""])
    if not host.startswith("/"):
        pytest.skip("the PostgreSQL of these tests has no socket on this machine")
    tried = ["unshare", "-m", "sh", "-c", WITH_SOCKET_OF_DATABASE, host, "true"]
    done = subprocess.run(tried, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine lets nobody mount in a namespace of their own: {done.stderr}")
    for statement in ("CREATE ROLE windlass LOGIN", "CREATE DATABASE determined OWNER windlass"):
        asyncio.run(administer(postgres_server, statement))
    yield Path(host)
    for statement in ("DROP DATABASE determined WITH (FORCE)", "DROP ROLE windlass"):
        asyncio.run(administer(postgres_server, statement))


def deployed(name: str, cloud: Cloud, folder: Path, socket_folder: Path) -> RealCluster:
    """A master that has not started, with the file that its machine would write."""
    cluster = RealCluster(folder, {}, trust=folder / "master.pem")
    plan = plan_of(name, **COMMON, **cloud.options, port=str(cluster.port))
    made = {**MADE, **cloud.made, "bucket": BUCKET, "master_address": "127.0.0.1"}
    assert whole_config(plan, folder, made) == cluster.config_file
    cluster.sign()
    cluster.master_options = ("--url", cluster.url)
    in_place = ("unshare", "-m", "sh", "-c", WITH_SOCKET_OF_DATABASE, str(socket_folder))
    cluster.master_via = in_place
    return cluster


@pytest.mark.parametrize("name", ["aws", "gcp"])
def test_a_search_buys_a_machine_trains_in_containers_and_leaves_nothing(
    name: str,
    socket_folder: Path,
    podman: Podman,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ec2_server()
    server.reset()
    with ExitStack() as stack:
        gce = stack.enter_context(fake_gce())
        cloud = on_ec2(server, stack) if name == "aws" else on_compute_engine(gce, stack)
        for variable, value in cloud.environment.items():
            monkeypatch.setenv(variable, value)
        of_podman = ("container_runtime=podman", f"container_socket={podman.socket}")
        doubles = both_clouds(server, gce)
        machines = stack.enter_context(BootingMachines(tmp_path / "machines", *doubles, of_podman))
        cluster = stack.enter_context(deployed(name, cloud, tmp_path / "cluster", socket_folder))
        where = [f"{variable}={value}" for variable, value in cloud.environment.items()]
        packages = {"host_path": sysconfig.get_path("purelib"), "container_path": "/mnt/packages"}
        # What an image with our extra `storage` has.
        where += ["PYTHONPATH=/mnt/packages", "SSL_CERT_FILE=/mnt/packages/certifi/cacert.pem"]
        config = {
            **SEARCH,
            "environment": {"environment_variables": where},
            "bind_mounts": [packages],
        }
        experiment = cluster.submit(config, MODEL)

        ended = cluster.wait(experiment, patience_s=200)["state"]
        logs = [cluster.logs_of(int(trial["id"])) for trial in cluster.trials(experiment)]
        assert ended == "STATE_COMPLETED", "\n".join(logs)
        trials = cluster.trials(experiment)
        assert len(trials) == 2
        for trial in trials:
            log = cluster.logs_of(int(trial["id"]))
            assert "as 65530 False" in log, "in a container"
        stored = cloud.stored()
        assert len([key for key in stored if key.endswith("state.json")]) >= 2
        eventually("nothing is left", lambda: not cluster.instances())
        eventually("the machine has ended", lambda: not machines.running())
        assert len(machines.user_data) == 1
    server.reset()
