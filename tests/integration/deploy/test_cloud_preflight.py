"""What `det deploy aws | gcp up` looks at before it makes anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.ec2_server import KEYS, Ec2Server, ec2_server
from windlass.cli.main import app
from windlass.deploy.cloud.aws_options import AwsOptions
from windlass.deploy.cloud.aws_preflight import aws_problems
from windlass.deploy.cloud.gcp_options import GcpOptions
from windlass.deploy.cloud.gcp_preflight import gcp_problems
from windlass.deploy.cloud.parsing import parse

STANDARD, G_ON_DEMAND, G_SPOT = "L-1216C47A", "L-DB2E81BA", "L-3819A6DF"
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


def up(*words: str) -> Result:
    where = ["aws", "up", "--cluster-id", "lab", "--region", REGION]
    return CliRunner().invoke(app, ["deploy", *words, *where])


def test_quotas_that_are_large_enough_say_nothing(aws: Ec2Server) -> None:
    assert problems() == []
    asked = {call["Action"] for call in aws.calls()}
    assert asked == {"DescribeInstanceTypes", "GetServiceQuota"}


def test_the_quota_of_the_pools_market_is_told_with_code_number_and_where_to_ask(
    aws: Ec2Server,
) -> None:
    aws.quota(G_ON_DEMAND, 64)
    (on_demand,) = problems()
    assert on_demand == (
        "the quota of on-demand G and VT instances, in vCPUs (L-DB2E81BA) in us-east-1 is 64, and "
        "5 x g4dn.metal of compute-pool need 480: ask for more at "
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
