"""What `det deploy aws | gcp up` looks at before it makes anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.ec2_server import KEYS, UBUNTU_GPU, Ec2Server, ec2_server
from windlass.cli.deploy import gcp as deploy_gcp
from windlass.cli.main import app
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.preflight import aws_problems
from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.gcp.preflight import gcp_problems
from windlass.deploy.cloud.parsing import parse
from windlass.deploy.cloud.state_folder import DeployPhase, Record, folder_of

STANDARD, G_ON_DEMAND, G_SPOT = "L-1216C47A", "L-DB2E81BA", "L-3819A6DF"
P_ON_DEMAND = "L-417A185B"
REGION = "us-east-1"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2Server]:
    server = ec2_server()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    for name, value in KEYS.items():
        monkeypatch.setenv(name.upper(), value)
    server.reset()
    for code in (STANDARD, G_ON_DEMAND, G_SPOT):
        server.quota(code, 1000)
    yield server
    server.reset()


def problems(**given: Any) -> list[str]:
    base = {"cluster_id": "lab", "region": REGION}
    return aws_problems(parse(AwsOptions, {**base, **given}, "options"))


def up(*words: str, state: Path | None = None) -> Result:
    where = ["aws", "up", "--cluster-id", "lab", "--region", REGION]
    place = [] if state is None else ["--local-state-path", str(state)]
    return CliRunner().invoke(app, ["deploy", *words, *where, *place])


def launch(aws: Ec2Server, **tags: str) -> str:
    """As Terraform or a master does."""
    described = [{"Key": key, "Value": value} for key, value in tags.items()]
    made = aws.client().run_instances(
        ImageId=UBUNTU_GPU,
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": described}],
    )
    return str(made["Instances"][0]["InstanceId"])


def test_quotas_that_are_large_enough_say_nothing(aws: Ec2Server) -> None:
    assert problems() == []
    asked = {call["Action"] for call in aws.calls()}
    assert asked == {
        *("DescribeInstanceTypes", "GetServiceQuota", "DescribeInstanceTypeOfferings"),
        *("DescribeSubnets", "DescribeVolumes"),
    }


def test_the_quota_of_the_pools_market_is_told_with_code_number_and_where_to_ask(
    aws: Ec2Server,
) -> None:
    aws.quota(G_ON_DEMAND, 16)
    (on_demand,) = problems()
    assert on_demand == (
        "the quota of on-demand G and VT instances, in vCPUs (L-DB2E81BA) in us-east-1 is 16, and "
        "5 x g4dn.xlarge of compute-pool need 20: ask for more at "
        "https://us-east-1.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/L-DB2E81BA, "
        "or lower --max-dynamic-agents"
    )
    assert problems(spot=True) == []
    aws.quota(G_SPOT, 0)
    assert "spot G and VT instances, in vCPUs (L-3819A6DF)" in problems(spot=True)[0]


def test_machines_that_one_quota_counts_are_added_up(aws: Ec2Server) -> None:
    aws.quota(STANDARD, 41)
    (told,) = problems(compute_agent_instance_type="m5.xlarge")
    assert (
        "is 41, and 1 x m6i.large of the master and 5 x m5.xlarge of aux-pool and 5 x m5.xlarge of "
        "compute-pool need 42" in told
    )
    aws.quota(STANDARD, 42)
    assert problems(compute_agent_instance_type="m5.xlarge") == []


def test_types_and_key_pairs_that_do_not_exist_are_named(aws: Ec2Server) -> None:
    told = problems(keypair="lost", compute_agent_instance_type="zz9.large")
    assert told[0].startswith("--keypair: us-east-1 has no lost: aws ec2 create-key-pair")
    assert told[1].startswith("us-east-1 has no instance type zz9.large: choose another")
    aws.client().create_key_pair(KeyName="preflight")
    assert problems(keypair="preflight") == []


def test_a_disk_that_is_there_says_which_zone_must_sell_the_masters_type(aws: Ec2Server) -> None:
    ec2 = aws.client()
    sold = {
        each["Location"]
        for page in ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": ["p4d.24xlarge"]}],
        )
        for each in page["InstanceTypeOfferings"]
    }
    zones = {each["ZoneName"] for each in ec2.describe_availability_zones()["AvailabilityZones"]}
    without = sorted(zones - sold)[0]
    tags = [{"Key": "Name", "Value": "det-lab-data"}]
    disk = ec2.create_volume(
        AvailabilityZone=without,
        Size=1,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
    )["VolumeId"]
    aws.quota(P_ON_DEMAND, 1000)
    (told,) = problems(master_instance_type="p4d.24xlarge")
    assert told == (
        f"--master-instance-type: the master's disk is in {without}, which has no p4d.24xlarge "
        f"({', '.join(sorted(sold))} {'has' if len(sold) == 1 else 'have'} it): choose another type"
    )
    ec2.delete_volume(VolumeId=disk)
    assert problems(master_instance_type="p4d.24xlarge") == []


def test_subnets_that_do_not_exist_are_named(aws: Ec2Server) -> None:
    there = aws.client().describe_subnets()["Subnets"][0]["SubnetId"]
    (told,) = problems(agent_subnet_id=[there, "subnet-0a1b"])
    assert told == (
        "--agent-subnet-id: there is no subnet-0a1b in us-east-1: correct it, or leave it out"
    )


def test_up_stops_before_it_makes_anything_unless_told_not_to_look(
    aws: Ec2Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without Terraform the next step after the look fails, and says so.
    monkeypatch.setenv("PATH", "/nowhere")
    assert "Terraform is not on PATH" in up().stderr
    aws.quota(G_ON_DEMAND, 0)
    refused = up()
    assert refused.exit_code == 1
    assert "Nothing was made: the quota of on-demand G" in refused.stderr
    assert "det deploy --no-preflight-checks does not look" in refused.stderr
    assert "Terraform is not on PATH" in up("--no-preflight-checks").stderr


def test_what_cannot_be_asked_is_a_warning(aws: Ec2Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    aws.rule("GetServiceQuota", code="AccessDeniedException", message="no", status=400, times=-1)
    went_on = up()
    assert "warning: quotas are not checked: Cannot ask for quotas:" in went_on.stderr
    assert "Terraform is not on PATH" in went_on.stderr


MASTER = {"det-cluster": "lab", "Name": "det-lab-master"}
OF_POOL = {"det-cluster": "lab", "det-lab": "det-agent-lab"}


def test_a_cluster_that_runs_is_not_made_again_from_where_its_state_is_not(
    aws: Ec2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    launch(aws, **{"det-cluster": "lab", "Name": "det-lab-bastion"})
    launch(aws, **{"det-cluster": "other", "Name": "det-other-master"})
    assert "Terraform is not on PATH" in up(state=tmp_path).stderr

    master = launch(aws, **MASTER)
    described = aws.client().describe_instances(InstanceIds=[master])
    address = described["Reservations"][0]["Instances"][0]["PublicIpAddress"]
    launch(aws, **OF_POOL)
    launch(aws, **OF_POOL)
    refused = up(state=tmp_path)
    assert refused.exit_code == 1
    assert (
        f"Nothing was made: lab runs in us-east-1 already (master {address}, 2 machines of pools), and its state is "
        "not here: name the bucket or folder of its state (--tf-state-bucket, --local-state-path), choose another "
        "--cluster-id, or run down where its state is; det deploy --no-preflight-checks does not look"
    ) in " ".join(refused.stderr.split())
    assert "Terraform is not on PATH" in up("--no-preflight-checks", state=tmp_path).stderr

    # Here is the state: that is the cluster.
    folder = folder_of("aws", "lab", tmp_path)
    folder.path.mkdir(parents=True)
    folder.note(Record(phase=DeployPhase.UP))
    assert "Terraform is not on PATH" in up(state=tmp_path).stderr


def test_machines_without_a_master_are_enough_to_refuse(aws: Ec2Server, tmp_path: Path) -> None:
    id_ = launch(aws, **OF_POOL)
    assert "lab runs in us-east-1 already (1 machine of pools)" in up(state=tmp_path).stderr
    aws.client().terminate_instances(InstanceIds=[id_])
    assert "runs in us-east-1 already" not in up(state=tmp_path).stderr


def test_a_cloud_that_cannot_be_asked_for_machines_is_a_warning(
    aws: Ec2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    aws.rule("DescribeInstances", code="UnauthorizedOperation", message="no", times=-1)
    went_on = up(state=tmp_path)
    assert "warning: whether lab runs already is not checked: Cannot list" in went_on.stderr
    assert "Terraform is not on PATH" in went_on.stderr


def test_on_google_the_whole_project_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and labels are the project's there: one cluster's `down` would end the other's machines in any region."""

    class Found:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def masters(self) -> list[str]:
            return ["203.0.113.7"]

        def listed(self) -> list[str]:
            return []

    monkeypatch.setattr(deploy_gcp, "GcpMachines", Found)
    monkeypatch.setattr(deploy_gcp, "gcp_problems", lambda options, is_new: [])
    where = ["--cluster-id", "lab", "--project-id", "my-project"]
    given = ["deploy", "gcp", "up", *where, "--local-state-path", str(tmp_path)]
    refused = CliRunner().invoke(app, given)
    assert refused.exit_code == 1
    told = " ".join(refused.stderr.split())
    assert "lab runs in project my-project already (master 203.0.113.7), and its state" in told
    assert "(--tf-state-gcs-bucket-name, --local-state-path)" in told
    assert not list(tmp_path.rglob("cluster.json"))


def google(cpus: int, limits: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    quotas = [SimpleNamespace(metric=k, limit=v[0], usage=v[1]) for k, v in limits.items()]
    return {
        "regions": SimpleNamespace(get=lambda **_: SimpleNamespace(quotas=quotas)),
        "machine_types": SimpleNamespace(get=lambda **_: SimpleNamespace(guest_cpus=cpus)),
    }


@pytest.mark.slow
def test_googles_gpus_and_cpus_are_counted() -> None:
    pytest.importorskip("google.cloud.compute_v1", reason="google-cloud-compute is not installed")
    base = {"cluster_id": "lab", "project_id": "my-project"}
    options = parse(GcpOptions, base, "options")
    spot = parse(GcpOptions, {**base, "preemptible": "true"}, "options")
    # 5 machines with 4 GPUs; 11 machines with 2 CPUs.
    limits = {"NVIDIA_T4_GPUS": (20, 1), "PREEMPTIBLE_NVIDIA_T4_GPUS": (8, 0), "CPUS": (22, 0)}
    clients = google(2, limits)
    (told,) = gcp_problems(options, is_new=True, **clients)
    assert told == (
        "the quota NVIDIA_T4_GPUS of us-west1 has 19, and 5 x n1-standard-32 of compute-pool need 20: "
        "ask for more at https://console.cloud.google.com/iam-admin/quotas?project=my-project, or lower "
        "--max-dynamic-agents"
    )
    assert gcp_problems(options, is_new=False, **clients) == []
    (told,) = gcp_problems(spot, is_new=True, **clients)
    assert "PREEMPTIBLE_NVIDIA_T4_GPUS of us-west1 has 8" in told
    (told,) = gcp_problems(options, is_new=False, **google(3, limits))
    assert "the quota CPUS of us-west1 has 22" in told
