"""`det deploy aws | gcp` as typed, on the stand-in stack; machines by moto and by a client of Google that remembers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.fsx.models import fsx_backends
from typer.testing import CliRunner, Result

from windlass.base.errors import NotFound, ProviderError
from windlass.cli.deploy import aws as deploy_aws
from windlass.cli.deploy import gcp as deploy_gcp
from windlass.cli.main import app
from windlass.deploy.cloud import cluster as cloud_cluster
from windlass.deploy.cloud.aws.machines import AwsMachines
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.preflight import with_mount_name
from windlass.deploy.cloud.gcp.machines import GcpMachines
from windlass.deploy.cloud.machines import end_all
from windlass.deploy.cloud.parsing import parse

STAND_IN = Path(__file__).parent / "stand_in"
HAS_TERRAFORM = shutil.which("terraform") is not None
needs_terraform = pytest.mark.skipif(not HAS_TERRAFORM, reason="terraform is not on PATH")


class NoMachines:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def masters(self) -> list[str]:
        return []

    def listed(self) -> list[str]:
        return []

    def end(self, ids: Any) -> None: ...


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_cluster, "modules_of", lambda cloud: STAND_IN)
    monkeypatch.setattr(deploy_aws, "AwsMachines", NoMachines)
    monkeypatch.setattr(deploy_gcp, "GcpMachines", NoMachines)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setattr(deploy_aws, "aws_problems", lambda options: [])
    monkeypatch.setattr(deploy_gcp, "gcp_problems", lambda options, is_new: [])


def det(*words: str) -> Result:
    return CliRunner().invoke(app, ["deploy", *words])


@needs_terraform
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
@pytest.mark.usefixtures("stand_in")
def test_up_list_and_down_as_typed(cloud: str, tmp_path: Path) -> None:
    place = ["--local-state-path", str(tmp_path)]
    which = ["--cluster-id", "lab", *place]
    where = ["--region", "us-west-2"] if cloud == "aws" else ["--project-id", "my-project"]

    made = det("--no-wait-for-master", cloud, "up", *which, *where)
    assert made.exit_code == 0, made.output
    assert "The cluster lab is up. Master: https://203.0.113.5:8443" in made.stdout
    assert "det -m https://203.0.113.5:8443 user login determined" in made.stdout
    secret = "--secret-id det-lab" if cloud == "aws" else "--secret det-lab --project my-project"
    assert secret in made.stdout

    (row,) = json.loads(det(cloud, "list", *place, "--json").stdout)
    assert (row["clusterId"], row["state"], row["master"]) == ("lab", "up", "203.0.113.5")

    other = ["--master-instance-type", "m5.large" if cloud == "aws" else "n2-standard-4"]
    refused = det("--no-wait-for-master", cloud, "up", *which, *where, *other)
    assert refused.exit_code == 1
    assert "nobody is there to ask: give --yes" in refused.stderr

    asked = det(cloud, "down", *which)
    assert asked.exit_code == 1
    assert "Nobody is there to ask: --yes removes lab" in asked.stderr

    gone = det(cloud, "down", *which, "--yes", "--delete-data")
    assert gone.exit_code == 0, gone.output
    assert gone.stdout == "Nothing of lab is left.\n"
    twice = det(cloud, "down", *which, "--yes")
    assert twice.exit_code == 1
    assert "cluster 'lab' not found" in twice.stderr
    assert f"No cluster of det deploy {cloud} was found" in det(cloud, "ls", *place).stderr


class OfAnother(NoMachines):
    """A cluster of the same name, whose state is elsewhere."""

    def masters(self) -> list[str]:
        return ["203.0.113.9"]

    def listed(self) -> list[str]:
        return ["i-1"]

    def end(self, ids: Any) -> None:
        raise AssertionError(f"ended {ids}")


@needs_terraform
@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_down_without_a_question_keeps_the_machines_of_another_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = ["--cluster-id", "lab", "--local-state-path", str(tmp_path)]
    made = det("--no-wait-for-master", "aws", "up", *which, "--region", "us-west-2")
    assert made.exit_code == 0, made.output
    monkeypatch.setattr(deploy_aws, "AwsMachines", OfAnother)
    gone = det("aws", "down", *which, "--yes", "--delete-data")
    assert gone.exit_code == 0, gone.output
    assert "A master of lab that is not in this state runs (203.0.113.9)" in gone.stderr
    assert gone.stdout.splitlines()[:2] == ["lab is down. What stays, and may cost money:", "  i-1"]


@needs_terraform
@pytest.mark.usefixtures("stand_in")
def test_a_plan_is_shown_and_nothing_is_made(tmp_path: Path) -> None:
    given = ["--cluster-id", "lab", "--local-state-path", str(tmp_path)]
    shown = det("aws", "plan", *given, "--region", "us-west-2").stdout
    assert "module.master.terraform_data.it" in shown
    dry = det("gcp", "up", *given, "--project-id", "my-project", "--dry-run").stdout
    assert "module.master.terraform_data.it" in dry
    assert not list(tmp_path.rglob("terraform.tfstate"))


@needs_terraform
@pytest.mark.usefixtures("stand_in")
def test_options_that_mean_nothing_in_a_cloud_say_so(tmp_path: Path) -> None:
    given = ["--cluster-id", "lab", "--region", "us-west-2", "--local-state-path", str(tmp_path)]
    told = det("--image-repo-prefix", "x", "aws", "plan", *given).stderr
    assert "--image-repo-prefix has no effect: the master's machine installs a package" in told


def test_mistakes_are_told_without_terraform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    wrong = det("aws", "up", "--cluster-id", "1", "--region", "mars", "--db-size", "3")
    assert wrong.exit_code == 1
    for option in ("--cluster-id", "--region", "--db-size"):
        assert option in wrong.stderr


@pytest.mark.parametrize("name", ["", ".", "..", "../../aws"])
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_down_of_what_is_no_name_touches_no_other_cluster(
    cloud: str, name: str, tmp_path: Path
) -> None:
    """A script whose variable is not set: the folder of all clusters would be the one of this."""
    state = tmp_path / cloud / "lab" / "terraform.tfstate"
    state.parent.mkdir(parents=True)
    state.touch()
    given = ["--cluster-id", name, "--yes", "--delete-data", "--local-state-path", str(tmp_path)]
    wrong = det(cloud, "down", *given)
    assert wrong.exit_code == 1
    assert "--cluster-id" in wrong.stderr
    assert state.exists()


TAGS = [
    {"ResourceType": "instance", "Tags": [{"Key": "det-lab", "Value": "det-agent-lab"}]},
]


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield boto3.client("ec2", region_name="us-west-2")


def test_only_machines_of_the_cluster_end_and_a_protected_one_does_not_keep_the_others(
    ec2: Any,
) -> None:
    def launched(tags: list[dict[str, Any]]) -> str:
        made = ec2.run_instances(
            ImageId="ami-12c6146b", MinCount=1, MaxCount=1, TagSpecifications=tags
        )
        return str(made["Instances"][0]["InstanceId"])

    foreign = launched([])
    ours = launched(TAGS)
    protected = launched(TAGS)
    ec2.modify_instance_attribute(InstanceId=protected, DisableApiTermination={"Value": True})
    machines = AwsMachines("lab", region="us-west-2")
    assert set(machines.listed()) == {ours, protected}
    with pytest.raises(ProviderError, match=f"Cannot end {protected}"):
        machines.end([protected, ours])
    assert machines.listed() == [protected]
    ec2.modify_instance_attribute(InstanceId=protected, DisableApiTermination={"Value": False})
    said: list[str] = []
    end_all(machines, said.append, pause_s=0)
    assert machines.listed() == []
    assert said[0].startswith("Ending ")
    found = ec2.describe_instances(InstanceIds=[foreign])["Reservations"][0]["Instances"][0]
    assert found["State"]["Name"] == "running"


def test_machines_that_are_gone_already_are_no_error(ec2: Any) -> None:
    AwsMachines("lab", region="us-west-2").end(["i-0123456789abcdef0"])


def test_without_credentials_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(ProviderError, match="Cannot list the machines of pools: Unable to locate"):
        AwsMachines("lab", region="us-west-2").listed()


def test_an_existing_fsx_is_asked_for_its_mount_name(ec2: Any) -> None:
    made = boto3.client("fsx", region_name="us-west-2").create_file_system(
        FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=["subnet-0a1b2c3d4e"],
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125},
    )  # fmt: skip
    system = made["FileSystem"]
    given = {"cluster_id": "lab", "region": "us-west-2", "deployment_type": "fsx"}
    options = parse(AwsOptions, {**given, "fsx_id": system["FileSystemId"]}, "options")
    # moto gives none.
    kept: Any = fsx_backends["123456789012"]["us-west-2"].file_systems[system["FileSystemId"]]
    kept.lustre_configuration["MountName"] = "fsx12"
    assert with_mount_name(options).fsx_mount_name == "fsx12"
    told = with_mount_name(options.model_copy(update={"fsx_mount_name": "told"}))
    assert told.fsx_mount_name == "told"
    missing = options.model_copy(update={"fsx_id": "fs-00000000000000000"})
    with pytest.raises(NotFound, match="in us-west-2: correct --fsx-id"):
        with_mount_name(missing)


def machine(name: str) -> Any:
    of_pool = {"managed-by": "det-master-lab"} if "agent" in name else {}
    labels = {"det-cluster": "lab", **of_pool}
    interface = SimpleNamespace(access_configs=[], network_i_p="10.0.0.2")
    return SimpleNamespace(name=name, labels=labels, network_interfaces=[interface])


class FakeInstances:
    """A client of Compute Engine, of two zones."""

    def __init__(self) -> None:
        self.there = {"us-west1-a": ["det-agent-lab-1"], "us-west1-b": ["det-agent-lab-2"]}
        self.filters: list[str] = []
        self.warnings: dict[str, str] = {}

    def aggregated_list(self, request: Any) -> Iterator[tuple[str, Any]]:
        self.filters.append(request.filter)
        for zone, names in self.there.items():
            code = self.warnings.get(zone, "" if names else "NO_RESULTS_ON_PAGE")
            yield (
                f"zones/{zone}",
                SimpleNamespace(
                    instances=[machine(name) for name in names],
                    warning=SimpleNamespace(code=code, message="no answer"),
                ),
            )

    def delete(self, *, project: str, zone: str, instance: str) -> None:
        from google.api_core.exceptions import NotFound

        assert project == "my-project"
        if instance not in self.there[zone]:
            raise NotFound("gone")
        self.there[zone].remove(instance)


@pytest.mark.slow
def test_machines_of_google_end_in_all_zones() -> None:
    pytest.importorskip("google.cloud.compute_v1", reason="google-cloud-compute is not installed")
    client = FakeInstances()
    machines = GcpMachines("lab", project="my-project", client=client)
    client.there["us-west1-a"].append("det-master-lab")
    assert machines.masters() == ["10.0.0.2"]
    assert client.filters == ["labels.det-cluster=lab"]
    client.there["us-west1-a"].remove("det-master-lab")
    end_all(machines, lambda line: None, pause_s=0)
    assert client.there == {"us-west1-a": [], "us-west1-b": []}
    assert client.filters[1] == "labels.managed-by=det-master-lab"
    machines.end(["us-west1-a/det-agent-lab-1"])
    # A zone that does not answer is not empty.
    client.warnings["us-west1-b"] = "UNREACHABLE"
    with pytest.raises(ProviderError, match="in zones/us-west1-b: no answer"):
        machines.listed()
