"""The published client sees pools of clouds with their image, their type, and whether they buy spot."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from master.wiring.gcp import ENDPOINT_VARIABLE
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, ec2_server
from tests.fakes.gce import fake_gce
from tests.published import COMPAT, needs_published
from tests.real_cluster import RealCluster, eventually

pytestmark = [pytest.mark.slow, needs_published]

EC2 = {
    "type": "aws",
    "region": REGION,
    "zones": [f"{REGION}a"],
    "image_id": UBUNTU_GPU,
    "instance_type": "g4dn.xlarge",
    "spot": True,
}
IMAGE = "projects/acme/global/images/windlass-1"
GCE = {
    "type": "gcp",
    "project": "acme-ml-1",
    "zone": "us-central1-a",
    "boot_disk_source_image": IMAGE,
    "instance_type": {"machine_type": "a2-highgpu-2g"},
}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealCluster]:
    server = ec2_server()
    server.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(name.upper(), value)
    with fake_gce() as gce:
        monkeypatch.setenv(ENDPOINT_VARIABLE, f"{gce.url}/compute/v1/")
        pools = [{"pool_name": name, "provider": p} for name, p in (("ec2", EC2), ("gce", GCE))]
        with RealCluster(tmp_path / "cluster", {"resource_pools": pools}) as cluster:
            yield cluster


def pools_of(cluster: RealCluster) -> dict[str, Any]:
    script = Path(__file__).with_name("published_pools.py")
    said = subprocess.check_output(
        [COMPAT / "python", script],
        env={**os.environ, "HOME": str(cluster.folder), "DET_MASTER": cluster.url}
        | cluster.login_as(),
    )
    found: dict[str, Any] = json.loads(said)
    return found


def test_pools_have_their_image_type_and_spot(cluster: RealCluster) -> None:
    eventually(
        "both clouds have said what they sell",
        lambda: {x["pool"] for x in cluster.client.fleet_offers()["offers"]} == {"ec2", "gce"},
    )
    assert pools_of(cluster) == {
        "ec2": {"image": UBUNTU_GPU, "type": "g4dn.xlarge", "spot": True, "clouds": ["aws"]},
        "gce": {"image": IMAGE, "type": "a2-highgpu-2g", "spot": False, "clouds": ["gcp"]},
    }
