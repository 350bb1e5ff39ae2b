"""Which storages the master goes to for a download or a deletion: it is no deputy of whoever names one."""

from __future__ import annotations

from typing import Any

import pytest

from agent_bootstrap.container_options import OsUser
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.identities import TaskOwner, WorkspaceUser
from master.checkpoints.places import CheckpointPlaces
from master.core.expconf.references import PoolSecrets
from windlass.storage.worker import RunAs

OURS = {"type": "gcs", "bucket": "ours"}
KEYS = {"access_key": "k", "secret_key": "s"}
S3 = {"type": "s3", "bucket": "theirs"}
AZURE = {"type": "azure", "container": "c"}


@pytest.mark.parametrize(
    ("storage", "may"),
    [
        (OURS, True),
        (OURS | {"save_trial_best": 3}, True),
        (S3 | KEYS, True),
        (S3, False),
        ({"type": "gcs", "bucket": "another"}, False),
        # With the rights of the master's machine, under a key that means nothing there.
        ({"type": "gcs", "bucket": "another", **KEYS}, False),
        (
            AZURE | {"account_url": "https://another.blob.core.windows.net", "secret_key": "s"},
            False,
        ),
        (S3 | {"access_key": "${master.yaml:checkpoint_storage.access_key}"}, False),
        # Services that only the master reaches.
        (S3 | KEYS | {"endpoint_url": "http://169.254.169.254"}, False),
        (S3 | KEYS | {"endpoint_url": "http://127.0.0.1:9200"}, False),
        (AZURE | {"account_url": "http://127.0.0.1:8080", "credential": "k"}, False),
        ({"type": "shared_fs", "host_path": "/", **KEYS}, False),
        ({"type": "nothing", **KEYS}, False),
        ({}, False),
    ],
)
def test_the_master_goes_to_no_bucket_of_a_users_choice(storage: dict[str, Any], may: bool) -> None:
    secrets = PoolSecrets({"${master.yaml:checkpoint_storage.access_key}": None})
    assert CheckpointPlaces(cluster=OURS, secrets=secrets).bucket(storage) is may


def test_the_clusters_own_server_is_one_it_goes_to() -> None:
    cluster = S3 | KEYS | {"endpoint_url": "http://minio.lan:9000"}
    places = CheckpointPlaces(cluster=cluster)
    assert places.bucket(cluster)
    assert places.bucket(cluster | {"bucket": "another", "access_key": "theirs"})


def test_files_are_touched_with_the_rights_of_whom_the_owners_tasks_run_as(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    cluster = ClusterTasks(
        default_user=OsUser(uid=1000, gid=1000, user="ann", group="ann"),
        of_workspace=lambda id_: WorkspaceUser(gid=500) if id_ == 2 else None,
    )
    places = CheckpointPlaces(cluster=OURS, os_user=cluster.os_user)
    assert places.run_as(TaskOwner(1, 2)) == RunAs(uid=1000, gid=500)
    assert places.run_as(TaskOwner(1, 1)) == RunAs(uid=1000, gid=1000)
    assert places.other_user() == RunAs(uid=65530, gid=65530)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert places.run_as(TaskOwner(1, 2)) is None
