"""What the list of pools says of pools of clouds, as the published client reads it."""

from __future__ import annotations

from typing import Any

from master.api.resource_pools.clouds import aws_detail, gcp_detail
from master.config import ResolvedPool
from provisioner.sections.aws import AwsSection
from provisioner.sections.gcp import GcpSection
from tests.fakes.pools import resolved_pool

AWS = {
    "type": "aws",
    "region": "us-east-1",
    "instance_type": "g4dn.xlarge",
    "markets": ["spot", "on_demand"],
    "spot_max_price": "0.5",
    "custom_tags": [{"key": "team", "value": "vision"}],
    "network_interface": {"public_ip": False, "subnet_id": "subnet-0a1b"},
}
GCP = {
    "type": "gcp",
    "project": "acme-ml",
    "zones": ["us-central1-a", "us-central1-b"],
    "instance_type": {"machine_type": "n1-standard-8", "gpu_num": 2, "preemptible": True},
    "network_tags": ["det-agent"],
    "service_account": {"email": "agents@acme-ml.iam.gserviceaccount.com"},
}


def pool(*sections: Any) -> ResolvedPool:
    return resolved_pool("gpu", *sections)


def test_a_pool_of_ec2_tells_its_section() -> None:
    told = aws_detail(pool(AwsSection.model_validate(AWS)))
    assert told is not None
    assert (told["region"], told["instanceType"]) == ("us-east-1", "g4dn.xlarge")
    assert (told["spotEnabled"], told["spotMaxPrice"]) == (True, "0.5")
    assert told["customTags"] == [{"key": "team", "value": "vision"}]
    assert (told["publicIp"], told["subnetId"]) == (False, "subnet-0a1b")


def test_a_pool_of_compute_engine_tells_its_section() -> None:
    told = gcp_detail(pool(GcpSection.model_validate(GCP)))
    assert told is not None
    assert (told["gpuType"], told["gpuNum"], told["preemptible"]) == ("nvidia-tesla-t4", 2, True)
    assert told["zone"] == "us-central1-a, us-central1-b"
    assert (told["networkTags"], told["operationTimeoutPeriod"]) == (["det-agent"], 300.0)


def test_a_pool_over_both_tells_both_and_others_none() -> None:
    both = pool(AwsSection.model_validate(AWS), GcpSection.model_validate(GCP))
    assert aws_detail(both)
    assert gcp_detail(both)
    for other in (None, pool()):
        assert (aws_detail(other), gcp_detail(other)) == (None, None)
