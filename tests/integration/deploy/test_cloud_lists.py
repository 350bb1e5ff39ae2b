"""`det deploy aws | gcp list`: from folders, from the bucket of states, and by tags in the cloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from windlass.base.errors import ProviderError
from windlass.cli.deploy import gcp as deploy_gcp
from windlass.cli.main import app
from windlass.deploy.cloud.aws.bucket import AwsBucket
from windlass.deploy.cloud.aws.machines import aws_tagged
from windlass.deploy.cloud.gcp.machines import gcp_tagged
from windlass.deploy.cloud.listing import Tagged, merged, recorded
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import DeployPhase, Record, folder_of

REGION = "us-west-2"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with mock_aws():
        yield


def launch(*clusters: str, **tags: str) -> None:
    for cluster in clusters:
        given = {"det-cluster": cluster, **tags}
        described = [{"Key": key, "Value": value} for key, value in given.items()]
        boto3.client("ec2", region_name=REGION).run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": described}],
        )


def bucket_of(cluster: str) -> None:
    s3 = boto3.client("s3", region_name=REGION)
    place: Any = {"LocationConstraint": REGION}
    s3.create_bucket(Bucket=f"det-{cluster}", CreateBucketConfiguration=place)
    tag = {"Key": "det-cluster", "Value": cluster}
    s3.put_bucket_tagging(Bucket=f"det-{cluster}", Tagging={"TagSet": [tag]})


def listed(cloud: str, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["deploy", cloud, "list", "--json", *words])
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("aws")
def test_aws_by_tag_with_machines_and_without() -> None:
    launch("lab", Name="det-lab-master")
    launch("lab", "lab", **{"det-lab": "det-agent-lab"})
    bucket_of("old")
    launch("", Name="not ours")
    found = {one.cluster_id: one for one in aws_tagged(region=REGION)}
    assert found["lab"].machines == 2
    assert found["lab"].master
    assert found["old"] == Tagged(cluster_id="old", region=REGION)


@pytest.mark.usefixtures("aws")
def test_the_three_places_are_one_list(tmp_path: Path) -> None:
    folder = folder_of("aws", "here", tmp_path)
    folder.path.mkdir(parents=True)
    folder.write_variables({"region": REGION})
    folder.note(Record(phase=DeployPhase.UP, address="203.0.113.5"))
    AwsBucket("states", region=REGION).make()
    shared = SharedRecords(AwsBucket("states", region=REGION), "aws")
    shared.write("shared", Record(phase=DeployPhase.MAKING), {"region": REGION})
    launch("here", "foreign", Name="x", **{"det-here": "det-agent-here"})

    words = ["--local-state-path", str(tmp_path), "--region", REGION]
    rows = {one["clusterId"]: one for one in listed("aws", *words, "--tf-state-bucket", "states")}

    assert (rows["here"]["state"], rows["here"]["machines"]) == ("up", 1)
    assert (rows["here"]["master"], rows["here"]["place"]) == ("203.0.113.5", str(folder.path))
    assert rows["shared"]["place"] == "bucket states"
    assert rows["shared"]["state"].startswith("half made")
    assert rows["foreign"]["state"].startswith("found by its tag")
    table = CliRunner().invoke(app, ["deploy", "aws", "list", *words]).stdout
    assert table.splitlines()[0].split()[:4] == ["Cluster", "Region", "State", "Master"]


def test_a_cloud_that_does_not_answer_does_not_hide_what_is_known_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of("gcp", "here", tmp_path)
    folder.path.mkdir(parents=True)
    folder.note(Record(phase=DeployPhase.DOWN))

    def refuses(**_: Any) -> Any:
        raise ProviderError("Cannot list clusters in project p: expired")

    monkeypatch.setattr(deploy_gcp, "gcp_tagged", refuses)
    given = ["deploy", "gcp", "list", "--local-state-path", str(tmp_path), "--project-id", "p-1234"]
    done = CliRunner().invoke(app, [*given, "--json"])
    (row,) = json.loads(done.stdout)
    assert (row["clusterId"], row["machines"]) == ("here", None)
    assert "warning: Cannot list clusters in project p: expired" in done.stderr


def pages(kind: str, **zones: list[Any]) -> Any:
    def aggregated_list(request: Any) -> Iterator[tuple[str, Any]]:
        assert request.filter == "labels.det-cluster:*"
        for zone, things in zones.items():
            warning = SimpleNamespace(code="", message="")
            yield (
                f"zones/{zone.replace('_', '-')}",
                SimpleNamespace(warning=warning, **{kind: things}),
            )

    return SimpleNamespace(aggregated_list=aggregated_list)


def machine(address: str = "", **labels: str) -> Any:
    access = [SimpleNamespace(nat_i_p=address)] if address else []
    interface = SimpleNamespace(access_configs=access, network_i_p="10.0.0.2")
    given = {"det-cluster": "lab", **labels}
    return SimpleNamespace(labels=given, network_interfaces=[interface])


@pytest.mark.slow
def test_gcp_by_label() -> None:
    pytest.importorskip("google.cloud.compute_v1", reason="google-cloud-compute is not installed")
    disk = SimpleNamespace(labels={"det-cluster": "old"})
    found = gcp_tagged(
        project="my-project",
        disks=pages("disks", us_west1_b=[disk]),
        instances=pages(
            "instances",
            us_west1_b=[machine("203.0.113.7")],
            us_west1_c=[machine(**{"managed-by": "det-master-lab"})],
        ),
    )
    assert found == [
        Tagged(cluster_id="old", region="us-west1"),
        Tagged(cluster_id="lab", region="us-west1", master="203.0.113.7", machines=1),
    ]


def test_one_cluster_is_one_row_for_each_region() -> None:
    here = recorded("lab", Record(phase=DeployPhase.UP), {"region": "a"}, "here")
    there = recorded("lab", Record(phase=DeployPhase.DOWN), {"region": "a"}, "bucket b")
    tagged = [Tagged(cluster_id="lab", region=region, machines=3) for region in ("a", "b")]
    first, second = merged([there, here], tagged)
    assert (first.region, first.place, first.machines) == ("a", "bucket b", 3)
    assert (second.region, second.place) == ("b", "")
    assert merged([here], None)[0].machines is None
    assert merged([here], [])[0].machines == 0
