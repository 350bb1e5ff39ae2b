"""Machines of both clouds that boot by their own user data, each in a network of its own with the metadata service at
its real address: the stub asks it there, the agent keeps tasks from it and hands them the machine's role instead."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from master.wiring.gcp import ENDPOINT_VARIABLE
from tests import namespaces
from tests.fakes.booting_machines import BootingMachines, both_clouds
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, ec2_server
from tests.fakes.gce import fake_gce
from tests.fakes.gcs_server import gcs_server
from tests.jails import open_way_to
from tests.real_cluster import RealCluster, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        os.geteuid() != 0 or not namespaces.works(),
        reason="network namespaces and rules of routing need root here, and iproute2",
    ),
]
BUCKET = "checkpoints"
TRAIN = """
import errno, os, socket
from windlass import core
with socket.socket() as one:
    one.settimeout(20)
    closed = one.connect_ex(("169.254.169.254", 80))
print("as", os.getuid(), "service", errno.errorcode.get(closed, "connected"), flush=True)
if "AWS_CONTAINER_CREDENTIALS_FULL_URI" in os.environ:
    import boto3
    print("role", boto3.session.Session().get_credentials().access_key, flush=True)
else:
    import google.auth
    from google.auth.transport.requests import Request
    credentials, _ = google.auth.default()
    credentials.refresh(Request())
    print("role", credentials.token, flush=True)
with core.init() as context:
    context.train.report_validation_metrics(1, {"loss": 1.0})
    with context.checkpoint.store_path({"steps_completed": 1}) as (path, _):
        (path / "state").write_text("1")
"""
SEARCH: dict[str, Any] = {
    "name": "in a network of its own",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "random", "metric": "loss", "max_trials": 2, "max_concurrent_trials": 2},
    "hyperparameters": {"x": 1},
    "resources": {"resource_pool": "compute"},
    "max_restarts": 0,
}
PROVIDERS: dict[str, dict[str, Any]] = {
    "aws": {
        "region": REGION,
        "zones": [f"{REGION}a"],
        "image_id": UBUNTU_GPU,
        "instance_type": "g4dn.xlarge",
        "instance_slots": 2,
    },
    "gcp": {
        "project": "acme-ml-1",
        "zone": "us-central1-a",
        "instance_type": {"machine_type": "a2-highgpu-2g"},
    },
}
ROLES = {"aws": "AK-of-", "gcp": "token-of-"}


@pytest.mark.parametrize("cloud", sorted(PROVIDERS))
def test_a_machine_asks_the_real_address_and_its_tasks_cannot(
    cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_way_to(tmp_path / "machines")
    server = ec2_server()
    server.reset()
    with ExitStack() as stack:
        stack.callback(server.reset)
        gce = stack.enter_context(fake_gce())
        gcs = stack.enter_context(gcs_server())
        gcs.create(BUCKET)
        s3 = server.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        stores = {
            "aws": {"type": "s3", "bucket": BUCKET, "endpoint_url": server.url},
            "gcp": {"type": "gcs", "bucket": BUCKET},
        }
        pool = {
            "pool_name": "compute",
            "max_instances": 1,
            "max_idle_agent_period": "2s",
            "provider": {"type": cloud, "boot_time": "5s", **PROVIDERS[cloud]},
        }
        config = {"checkpoint_storage": stores[cloud], "resource_pools": [pool]}
        cluster = RealCluster(tmp_path / "cluster", config)
        cluster.master_options = ("--url", cluster.url)
        ports = [cluster.port, urlsplit(server.url).port or 0, urlsplit(gcs.url).port or 0]
        machines = stack.enter_context(
            BootingMachines(tmp_path / "machines", *both_clouds(server, gce), reached=ports)
        )
        with monkeypatch.context() as only_master:
            only_master.setenv("AWS_ENDPOINT_URL", server.url)
            only_master.setenv(ENDPOINT_VARIABLE, f"{gce.url}/compute/v1/")
            for variable, value in KEYS.items():
                only_master.setenv(variable.upper(), value)
            stack.enter_context(cluster)
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "train.py").write_text(TRAIN)
        of_tasks = [f"STORAGE_EMULATOR_HOST={gcs.url}"] if cloud == "gcp" else []
        search = {**SEARCH, "environment": {"environment_variables": of_tasks}}
        experiment = cluster.submit(search, tmp_path / "model")

        ended = cluster.wait(experiment, patience_s=200)["state"]
        logs = [cluster.logs_of(int(trial["id"])) for trial in cluster.trials(experiment)]
        assert ended == "STATE_COMPLETED", "\n".join([*logs, *machines.consoles.values()])
        (name,) = machines.user_data
        settings = tmp_path / "machines" / name / "home/.config/windlass/agent.yaml"
        where = yaml.safe_load(settings.read_text())["metadata_service"]
        assert where == "http://169.254.169.254", "by the stub's own default"
        assert len(logs) == 2
        for log in logs:
            assert "as 65530 service ENETUNREACH" in log
            assert f"role {ROLES[cloud]}{name}" in log, "what the agent hands out"
        eventually("nothing is left", lambda: not cluster.instances())
        eventually("the machine has ended", lambda: not machines.running())
