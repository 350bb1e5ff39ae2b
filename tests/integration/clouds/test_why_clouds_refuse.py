"""Whatever a cloud answers, the user of the job reads it in one sentence, by command line and over REST: one master
with a pool for each trouble of each cloud, through boto3 and Google's client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from master.wiring.gcp import ENDPOINT_VARIABLE
from tests.command_line import run_here
from tests.fakes.ec2_server import KEYS, UBUNTU_GPU, Ec2Server, ec2_server
from tests.fakes.gce import FakeGce, Fault, Which, fake_gce
from tests.real_cluster import RealCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Ec2:
    """Of a region of its own: what AWS refuses may be true for a whole account and region."""

    kind: str
    words: tuple[str, ...]
    region: str
    section: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Gce:
    """Of a project of its own, for the same reason."""

    kind: str
    words: tuple[str, ...]
    zones: tuple[str, ...]
    type: str
    section: Mapping[str, Any] = field(default_factory=dict)
    fault: Fault | None = None


def launches(code: str, message: str, status: int = 400) -> dict[str, Any]:
    return {"action": "RunInstances", "code": code, "message": message, "status": status}


EC2 = {
    "ec2-quota": Ec2(
        "quota",
        ("the quota of 8 of on-demand G and VT instances, in vCPUs (L-DB2E81BA) in us-west-2",),
        "us-west-2",
        rules=(
            launches(
                "VcpuLimitExceeded",
                "You have requested more vCPU capacity than your current vCPU limit of 8 allows.",
            ),
        ),
    ),
    "ec2-expired": Ec2(
        "credentials",
        ("aws-eu-west-1 does not accept", "renew the master's credentials for AWS"),
        "eu-west-1",
        rules=(launches("RequestExpired", "Request has expired."),),
    ),
    "ec2-image": Ec2(
        "misconfigured",
        ("there is no image ami-0bad in us-east-2", "correct image_id"),
        "us-east-2",
        {"image_id": "ami-0bad"},
    ),
    "ec2-subnet": Ec2(
        "misconfigured",
        ("there is no subnet subnet-0bad in eu-central-1", "correct subnets"),
        "eu-central-1",
        {"subnets": ["subnet-0bad"]},
    ),
    "ec2-role": Ec2(
        "misconfigured",
        ("aws-ca-central-1 refuses the pool's configuration", "Invalid IAM Instance Profile"),
        "ca-central-1",
        {"iam_instance_profile_arn": "arn:aws:iam::123456789012:instance-profile/nobody"},
    ),
    "ec2-stock": Ec2(
        "no_capacity",
        ("g4dn.xlarge in us-east-1a", "us-east-1b", "do not have sufficient", "retrying at "),
        "us-east-1",
        {"zones": ["us-east-1a", "us-east-1b"]},
        (
            launches(
                "InsufficientInstanceCapacity",
                "We currently do not have sufficient g4dn.xlarge capacity.",
                500,
            ),
        ),
    ),
    "ec2-throttled": Ec2(
        "throttled",
        ("aws-eu-west-2 is throttling calls: RequestLimitExceeded", "launching 1 x g4dn.xlarge"),
        "eu-west-2",
        rules=(launches("RequestLimitExceeded", "Request limit exceeded.", 503),),
    ),
    "ec2-unreachable": Ec2(
        "unreachable",
        ("aws-eu-west-3 cannot be reached or has failed",),
        "eu-west-3",
        rules=({"action": "DescribeInstances", "lost": "request"},),
    ),
}
GCE = {
    "gce-quota": Gce(
        "quota",
        ("the quota of 1 of NVIDIA_A100_GPUS in us-central1 is used up",),
        ("us-central1-a",),
        "a2-highgpu-1g",
        fault=Fault(
            code="QUOTA_EXCEEDED",
            message="Quota 'NVIDIA_A100_GPUS' exceeded.  Limit: 1.0 in region us-central1.",
        ),
    ),
    "gce-expired": Gce(
        "credentials",
        ("gcp-gce-expired-us-central1 does not accept", "renew its login"),
        ("us-central1-a",),
        "g2-standard-4",
        fault=Fault(
            status=401,
            code="authError",
            message="Request had invalid authentication credentials.",
        ),
    ),
    "gce-image": Gce(
        "misconfigured",
        ("projects/acme/global/images/none' was not found", "boot_disk_source_image"),
        ("us-central1-b",),
        "g2-standard-4",
        {"boot_disk_source_image": "projects/acme/global/images/none"},
    ),
    "gce-subnet": Gce(
        "misconfigured",
        ("subnetworks/nowhere' was not found", "network_interface"),
        ("us-central1-c",),
        "g2-standard-4",
        {"network_interface": {"subnetwork": "nowhere"}},
    ),
    "gce-role": Gce(
        "misconfigured",
        ("nobody@acme.iam.gserviceaccount.com' was not found", "service_account"),
        ("us-east1-b",),
        "g2-standard-4",
        {"service_account": {"email": "nobody@acme.iam.gserviceaccount.com"}},
    ),
    "gce-stock": Gce(
        "no_capacity",
        ("a2-highgpu-2g in us-central1-a", "us-central1-b", "enough resources", "retrying at "),
        ("us-central1-a", "us-central1-b"),
        "a2-highgpu-2g",
        fault=Fault(
            code="ZONE_RESOURCE_POOL_EXHAUSTED",
            message="The zone does not have enough resources available to fulfill the request.",
        ),
    ),
    "gce-throttled": Gce(
        "throttled",
        ("gcp-gce-throttled-us-east1 is throttling calls", "launching 1 x a2-highgpu-8g"),
        ("us-east1-c",),
        "a2-highgpu-8g",
        fault=Fault(status=429, code="rateLimitExceeded", message="Rate Limit Exceeded"),
    ),
    "gce-unreachable": Gce(
        "unreachable",
        ("gcp-gce-unreachable-europe-west4, zone europe-west4-a", "unreachable"),
        ("europe-west4-a",),
        "a2-highgpu-1g",
    ),
}


def pools() -> list[dict[str, Any]]:
    ec2 = {
        name: {
            "type": "aws",
            "region": case.region,
            "zones": [f"{case.region}a"],
            "instance_type": "g4dn.xlarge",
            "image_id": UBUNTU_GPU,
            **case.section,
        }
        for name, case in EC2.items()
    }
    gce = {
        name: {
            "type": "gcp",
            "project": name,
            "zones": list(case.zones),
            "instance_type": {"machine_type": case.type},
            **case.section,
        }
        for name, case in GCE.items()
    }
    return [
        {"pool_name": name, "max_instances": 2, "provider": section}
        for name, section in {**ec2, **gce}.items()
    ]


def injure(server: Ec2Server, gce: FakeGce) -> None:
    for case in EC2.values():
        for rule in case.rules:
            server.rule(match={"Region": case.region}, times=-1, **rule)
    for other in GCE.values():
        if other.fault is not None:
            for zone in other.zones:
                gce.faults.refused[Which(zone=zone, machine_type=other.type)] = other.fault
    gce.faults.unreachable.add("europe-west4-a")


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealCluster, Any]]:
    """A cluster, and its experiments by pool."""
    folder = tmp_path_factory.mktemp("refused")
    server = ec2_server()
    server.reset()
    with pytest.MonkeyPatch.context() as patch, fake_gce() as gce:
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        patch.setenv("AWS_ACCESS_KEY_ID", KEYS["aws_access_key_id"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["aws_secret_access_key"])
        patch.setenv(ENDPOINT_VARIABLE, f"{gce.url}/compute/v1/")
        injure(server, gce)
        model = folder / "model"
        model.mkdir()
        with RealCluster(folder / "cluster", {"resource_pools": pools()}) as cluster:
            yield cluster, {pool: cluster.submit(config(pool), model) for pool in (*EC2, *GCE)}
    server.mend()
    assert not server.client().describe_instances()["Reservations"]
    assert not gce.cloud.machines


def config(pool: str) -> dict[str, Any]:
    return {
        "name": pool,
        "entrypoint": "sleep 1",
        "searcher": {"name": "single", "metric": "loss"},
        "resources": {"resource_pool": pool, "slots_per_trial": 1},
    }


@pytest.mark.parametrize("name", [*EC2, *GCE])
def test_the_user_reads_it_in_one_sentence(
    submitted: tuple[RealCluster, dict[str, int]], name: str
) -> None:
    cluster, experiments = submitted
    case: Ec2 | Gce = EC2[name] if name in EC2 else GCE[name]

    def reason() -> dict[str, Any] | None:
        found = cluster.get(f"/api/v1/windlass/experiments/{experiments[name]}/reasons")
        told: list[dict[str, Any]] = list(found["reasons"].values())
        seen.append(told)
        fits = (r for r in told if r["kind"] == case.kind)
        return next((r for r in fits if all(words in r["text"] for words in case.words)), None)

    seen: list[Any] = []
    try:
        said = eventually(f"{name} is told", reason, patience_s=60)
    except AssertionError:
        pytest.fail(f"not {case.kind} {case.words}: {seen[-1]}")
    assert "\n" not in said["text"]
    environ = {**os.environ, **cluster.login_as(), "HOME": str(cluster.folder), "COLUMNS": "800"}
    command = ("-m", cluster.url, "job", "explain", str(experiments[name]))
    shown = run_here(command, environ)
    assert shown.returncode == 0, shown.stderr
    assert any(case.words[0] in line for line in shown.stdout.splitlines()), shown.stdout
