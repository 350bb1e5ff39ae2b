"""States in a bucket of Google Cloud Storage (our fake): Terraform's own backend, and the record beside the state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gcs_server import FakeGcs, gcs_server
from tests.fakes.gcs_states import BUCKETS, StatesHandler
from tests.integration.deploy.test_cloud_life import STAND_IN, FakeMachines
from windlass.base.errors import ProviderError
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.gcp.bucket import GcpBucket
from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.gcp.plan import CLOUD, gcp_plan
from windlass.deploy.cloud.parsing import parse
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import folder_of

pytestmark = pytest.mark.slow
needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="terraform is not on PATH"
)


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGcs]:
    pytest.importorskip("google.cloud.compute_v1", reason="google-cloud-compute is not installed")
    with gcs_server(StatesHandler) as server:
        # Terraform's backend and our client read the same variables.
        monkeypatch.setenv("GOOGLE_STORAGE_CUSTOM_ENDPOINT", f"{server.url}/storage/v1/b")
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "token")
        yield server


def bucket() -> GcpBucket:
    return GcpBucket("states", project="my-project", region="us-west1")


def test_a_bucket_is_made_closed_and_versioned(gcs: FakeGcs) -> None:
    assert not bucket().exists()
    bucket().make()
    made = BUCKETS["states"]
    bucket().make()
    assert BUCKETS["states"] is made
    assert (made["project"], made["location"]) == ("my-project", "us-west1")
    assert made["versioning"] == {"enabled": True}
    assert made["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    assert made["labels"]["managed-by"] == "determined"


def test_objects_come_and_go(gcs: FakeGcs) -> None:
    assert bucket().read("a/b") is None
    with pytest.raises(ProviderError, match="there is none"):
        bucket().write("a/b", b"1")
    bucket().make()
    bucket().write("a/b c", b"1")
    bucket().write("d", b"2")
    assert bucket().read("a/b c") == b"1"
    assert bucket().keys("a/") == ["a/b c"]
    bucket().remove("a/")
    assert bucket().keys("") == ["d"]


@needs_terraform
def test_one_machine_makes_it_and_another_removes_it(gcs: FakeGcs, tmp_path: Path) -> None:
    def on(machine: str) -> CloudCluster:
        return CloudCluster(
            folder=folder_of(CLOUD, "lab", tmp_path / machine),
            say=lambda line: None,
            records=SharedRecords(bucket(), CLOUD),
            modules=STAND_IN,
            pause_s=0,
        )

    given: dict[str, Any] = {"cluster_id": "lab", "project_id": "my-project", "yes": True}
    plan = gcp_plan(parse(GcpOptions, given, "options"), ())
    assert on("one").up(plan, agree=lambda changes: True) is not None
    assert gcs.keys("states") == [
        "windlass/gcp/lab/cluster.json",
        "windlass/gcp/lab/default.tfstate",
    ]

    gcs.buckets["states"].put("windlass/gcp/lab/default.tflock", b'{"ID": "1", "Who": "me@laptop"}')
    other = on("other")
    with pytest.raises(ProviderError) as error:
        other.up(plan, agree=lambda changes: True)
    assert "holds the lock of the state" in error.value.message
    assert "force-unlock" in error.value.message
    del gcs.buckets["states"].objects["windlass/gcp/lab/default.tflock"]

    assert other.known()["project_id"] == "my-project"
    machines = FakeMachines(tmp_path / "other" / "gcp" / "events", ["z/i-1"])
    assert other.down(machines, delete_data=True, end_others=lambda others: False) == []
    assert gcs.keys("states") == []
