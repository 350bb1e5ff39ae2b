"""States in a bucket of S3 (moto's): made closed, locked by Terraform, and enough for another machine to go on."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, keys, s3_client, s3_server
from tests.integration.deploy.test_cloud_life import STAND_IN, FakeMachines
from windlass.base.errors import InvalidState, NotFound, ProviderError
from windlass.deploy.cloud.aws.bucket import AwsBucket
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.plan import CLOUD, aws_plan
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.parsing import parse
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import DeployPhase, folder_of

needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="terraform is not on PATH"
)
REGION = "us-west-2"
PASSWORD = "a-word-that-is-nowhere"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with s3_server() as url:
        # Terraform's backend and boto3 read the same variables.
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        yield s3_client(url)


class Machine:
    """A computer that somebody deploys from."""

    def __init__(
        self, folder: Path, bucket: str = "states", say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.folder = folder_of(CLOUD, "lab", folder)
        records = SharedRecords(AwsBucket(bucket, region=REGION), CLOUD) if bucket else None
        self.cluster = CloudCluster(
            folder=self.folder,
            say=say,
            records=records,
            modules=STAND_IN,
            pause_s=0,
        )

    def up(self, **given: Any) -> Any:
        return self.cluster.up(self.plan(**given), agree=lambda changes: True)

    def plan(self, **given: Any) -> Any:
        base = {"cluster_id": "lab", "region": REGION, "yes": True, "initial_user_password": "x"}
        return aws_plan(parse(AwsOptions, {**base, **given}, "options"), ())

    def down(self, machines: Sequence[str] = (), *, delete_data: bool = False) -> list[str]:
        fake = FakeMachines(self.folder.path.parent / "events", machines)
        return self.cluster.down(fake, delete_data=delete_data, end_others=lambda others: False)


def test_a_bucket_is_made_closed_and_one_that_is_there_stays_as_it_is(s3: Any) -> None:
    bucket = AwsBucket("states", region=REGION)
    assert not bucket.exists()
    bucket.make()
    bucket.make()
    assert bucket.exists()
    closed = s3.get_public_access_block(Bucket="states")["PublicAccessBlockConfiguration"]
    assert set(closed.values()) == {True}
    assert s3.get_bucket_versioning(Bucket="states")["Status"] == "Enabled"
    rules = s3.get_bucket_encryption(Bucket="states")["ServerSideEncryptionConfiguration"]["Rules"]
    assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    tags = s3.get_bucket_tagging(Bucket="states")["TagSet"]
    assert {"Key": "managed-by", "Value": "determined"} in tags
    assert bucket.backend("a")["s3"]["region"] == REGION

    s3.create_bucket(Bucket="other")
    AwsBucket("other", region=REGION).make()
    assert "Status" not in s3.get_bucket_versioning(Bucket="other")


def test_a_bucket_of_somebody_else_is_one_sentence(s3: Any) -> None:
    class Denied(AwsBucket):
        def __init__(self) -> None:
            super().__init__("theirs", region=REGION)
            self._s3 = self

        def head_bucket(self, **_: Any) -> Any:
            raise self._aws.refused({"Error": {"Code": "403", "Message": "no"}}, "HeadBucket")

    with pytest.raises(ProviderError, match="theirs belongs to somebody else, or you may not use"):
        Denied().make()


@needs_terraform
def test_what_is_in_a_bucket_goes_on_from_another_machine(s3: Any, tmp_path: Path) -> None:
    one, other = Machine(tmp_path / "one"), Machine(tmp_path / "other")
    AwsBucket("states", region=REGION).make()
    with pytest.raises(NotFound, match="in bucket states; there are none"):
        other.cluster.known()

    assert one.up(db_password=PASSWORD) is not None
    assert keys(s3, "states") == [
        "windlass/aws/lab/cluster.json",
        "windlass/aws/lab/terraform.tfstate",
    ]
    stored = "".join(
        s3.get_object(Bucket="states", Key=key)["Body"].read().decode()
        for key in keys(s3, "states")
    )
    assert PASSWORD not in stored
    assert not (one.folder.path / "terraform.tfstate").exists()

    # With the bucket's name only; what it was made with comes from there.
    assert other.cluster.known()["region"] == REGION
    left = other.down(["i-1"])
    assert any("module.bucket" in address for address in left)
    assert (one.folder.path.parent / "events").read_text().splitlines()[-1] != "remove master"
    assert "remove master" in (other.folder.path.parent / "events").read_text()
    document = json.loads(
        s3.get_object(Bucket="states", Key="windlass/aws/lab/cluster.json")["Body"].read()
    )
    assert document["record"]["phase"] == "down"

    # The first machine hears of it.
    assert one.cluster.known()["cluster_id"] == "lab"
    record = one.folder.record
    assert record is not None
    assert record.phase is DeployPhase.DOWN
    assert one.down(delete_data=True) == []
    assert keys(s3, "states") == []
    with pytest.raises(NotFound):
        other.cluster.known()
    assert not other.folder.path.exists()


@pytest.mark.slow
@needs_terraform
def test_two_at_once_are_kept_apart_by_the_lock_in_the_bucket(s3: Any, tmp_path: Path) -> None:
    waits = threading.Event()

    def said_by_one(line: str) -> None:
        if "module.bucket" in line:
            waits.set()

    one, other = Machine(tmp_path / "one", say=said_by_one), Machine(tmp_path / "other")
    holds = one.folder.path.parent / "hold-bucket"
    holds.parent.mkdir(parents=True)
    holds.touch()
    thread = threading.Thread(target=one.up)
    thread.start()
    try:
        assert waits.wait(60)
        with pytest.raises(ProviderError) as error:
            other.up()
    finally:
        holds.unlink()
        thread.join()
    said = error.value.message
    assert "holds the lock of the state since 20" in said
    assert "wait until it ends; if it was killed: terraform -chdir=" in said
    assert "force-unlock" in said
    assert "\n" not in said
    assert "Precondition" not in said
    assert other.up() is not None


@pytest.mark.slow
@needs_terraform
def test_a_state_does_not_change_its_place_unseen(s3: Any, tmp_path: Path) -> None:
    here = Machine(tmp_path, bucket="")
    assert here.up() is not None
    with pytest.raises(InvalidState, match="leave the bucket for the state as it is"):
        Machine(tmp_path).up()
    assert here.cluster.look(here.plan()) == []


@needs_terraform
def test_a_look_makes_no_bucket(s3: Any, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    changes = machine.cluster.look(machine.plan())
    assert ("create", "module.master.terraform_data.it") in changes
    assert s3.list_buckets()["Buckets"] == []
    assert machine.folder.record is None


def test_a_cluster_that_a_bucket_does_not_have_keeps_its_state_here(
    s3: Any, tmp_path: Path
) -> None:
    """Its record is lost, and somebody names a bucket that it never was in."""
    AwsBucket("states", region=REGION).make()
    machine = Machine(tmp_path)
    machine.folder.path.mkdir(parents=True)
    state = machine.folder.path / "terraform.tfstate"
    state.touch()
    with pytest.raises(NotFound):
        machine.cluster.known()
    assert state.exists()
