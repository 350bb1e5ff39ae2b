"""A trial on a real cluster whose checkpoints lie in a bucket, with a master that tried it first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, keys, s3_client, s3_server
from tests.real_cluster import RealCluster
from windlass.base.errors import InvalidArgument

PROGRAM = """
from windlass import core
with core.init() as context:
    info = context.info
    path = context.train.get_tensorboard_path()
    path.mkdir(parents=True)
    (path / "events").write_text("event")
    with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
        (path / "state").write_text("1")
    with context.checkpoint.restore_path(uuid) as path:
        assert (path / "state").read_text() == "1"
    context.train.report_validation_metrics(1, {"loss": 1.0})
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with s3_server() as url:
        s3_client(url).create_bucket(Bucket="bucket")
        yield url


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[RealCluster]:
    storage = {
        "type": "s3",
        "bucket": "bucket",
        "prefix": "here",
        "endpoint_url": url,
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
    }
    config = {"resource_pools": [{"pool_name": "default"}], "checkpoint_storage": storage}
    with RealCluster(tmp_path_factory.mktemp("bucket"), config) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


CONFIG: dict[str, Any] = {
    "name": "bucket",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "resources": {"slots_per_trial": 1},
    "max_restarts": 0,
}


def test_checkpoints_and_tensorboard_files_go_to_the_bucket(
    cluster: RealCluster, url: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    experiment = cluster.submit(CONFIG, tmp_path)
    ended = cluster.wait(experiment)
    assert ended["state"] == "STATE_COMPLETED", cluster.logs_of(1)
    cluster_id = cluster.get("/api/v1/master")["clusterId"]
    (checkpoint,) = cluster.client.checkpoints(experiment)
    uuid = checkpoint["uuid"]
    assert checkpoint["resources"] == {"metadata.json": "26", "state": "1"}
    stored = set(keys(s3_client(url), "bucket"))
    assert stored == {
        f"here/{uuid}/state",
        f"here/{uuid}/metadata.json",
        f"here/{cluster_id}/tensorboard/experiment/{experiment}/trial/1/events",
    }
    assert SECRET_KEY not in cluster.log()


def test_a_bucket_that_is_not_there_is_refused_at_once(
    cluster: RealCluster, tmp_path: Path
) -> None:
    config = CONFIG | {"checkpoint_storage": {"type": "s3", "bucket": "nowhere"}}
    with pytest.raises(InvalidArgument, match=r"checkpoint_storage.bucket: .*no such bucket"):
        cluster.submit(config, tmp_path)
