"""Which storages the master tries at submission, with what, and how often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from master.experiments.submission.storage_checks import (
    BAD_FOR_S,
    GOOD_FOR_S,
    StorageChecks,
    may_try,
)
from windlass.base.clock import ManualClock
from windlass.base.errors import (
    InvalidConfig,
    StorageDenied,
    StorageError,
    StorageMissing,
    StorageUnreachable,
)

MINIO = {"type": "s3", "bucket": "ours", "endpoint_url": "https://minio.lan", "access_key": "k"}
ROLE = {"type": "gcs", "bucket": "ours"}
KEYS = {"access_key": "k", "secret_key": "s"}
FILES = {"type": "shared_fs", "host_path": "/shared"}


@pytest.mark.parametrize(
    ("storage", "cluster", "tried"),
    [
        (FILES, FILES, False),
        ({"type": "directory", "container_path": "/d"}, FILES, False),
        (MINIO, MINIO, True),
        (MINIO | {"save_trial_best": 3}, MINIO, True),
        (ROLE, ROLE, True),
        ({"type": "gcs", "bucket": "another"}, ROLE, False),
        ({"type": "s3", "bucket": "another"}, ROLE, False),
        ({"type": "s3", "bucket": "another", **KEYS}, ROLE, True),
        (MINIO | {"bucket": "another"}, MINIO, True),
        (MINIO | {"endpoint_url": "http://169.254.169.254/"}, MINIO, False),
        (MINIO | {"endpoint_url": "http://127.0.0.1:9200"}, FILES, False),
        ({"type": "azure", "container": "c", "account_url": "https://a.evil.org"}, FILES, False),
        (
            {
                "type": "azure",
                "container": "c",
                "account_url": "https://a.evil.org",
                "credential": "k",
            },
            FILES,
            False,
        ),
        (
            {
                "type": "azure",
                "container": "c",
                "account_url": "https://a.blob.core.windows.net",
                "credential": "k",
            },
            FILES,
            True,
        ),
        (
            {
                "type": "azure",
                "container": "c",
                "connection_string": "AccountName=a;AccountKey=aw==;EndpointSuffix=core.windows.net",
            },
            FILES,
            True,
        ),
        (
            {
                "type": "azure",
                "container": "c",
                "connection_string": "AccountName=evil.org/x;AccountKey=aw==",
            },
            FILES,
            False,
        ),
    ],
)
def test_the_master_is_no_deputy(
    storage: dict[str, Any], cluster: dict[str, Any], tried: bool
) -> None:
    assert may_try(storage, cluster) is tried


class Attempts:
    """Counts, and raises what it is told to."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.count = 0

    def __call__(self, storage: Any) -> None:
        self.count += 1
        if self.problem is not None:
            raise self.problem


async def test_what_is_known_is_not_asked_again_for_a_while() -> None:
    clock, attempts = ManualClock(), Attempts()
    checks = StorageChecks(clock, MINIO, attempts)
    await asyncio.gather(*(checks.require(MINIO) for _ in range(5)))
    assert attempts.count == 1
    clock.advance(GOOD_FOR_S + 1)
    await checks.require(MINIO)
    assert attempts.count == 2
    attempts.problem = StorageUnreachable("away")
    clock.advance(GOOD_FOR_S + 1)
    for _ in range(2):
        with pytest.raises(InvalidConfig):
            await checks.require(MINIO)
    assert attempts.count == 3
    attempts.problem = None
    clock.jump(-3600)
    clock.advance(BAD_FOR_S + 1)
    await checks.require(MINIO)
    assert attempts.count == 4


@pytest.mark.parametrize(
    ("storage", "problem", "field"),
    [
        (MINIO, StorageMissing("s3://ours: there is no such bucket"), "bucket"),
        (MINIO, StorageDenied("s3://ours: the credentials are wrong"), "access_key"),
        (MINIO, StorageUnreachable("s3://ours: no answer"), "endpoint_url"),
        (MINIO, StorageError("s3://ours: strange"), "bucket"),
        (ROLE, StorageMissing("gs://ours: there is no such bucket"), "bucket"),
    ],
)
async def test_a_storage_that_cannot_be_used_is_refused_by_its_field(
    storage: dict[str, Any], problem: StorageError, field: str
) -> None:
    checks = StorageChecks(ManualClock(), storage, Attempts(problem))
    with pytest.raises(InvalidConfig) as refused:
        await checks.require(storage)
    assert refused.value.problems == (f"<config>.checkpoint_storage.{field}: {problem.message}",)


@pytest.mark.parametrize("problem", [StorageDenied("no credentials"), StorageUnreachable("x")])
async def test_without_keys_the_master_does_not_judge_for_the_nodes(problem: StorageError) -> None:
    await StorageChecks(ManualClock(), ROLE, Attempts(problem)).require(ROLE)


async def test_a_check_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()
    monkeypatch.setattr("master.experiments.submission.storage_checks.DEADLINE_S", 0.05)
    checks = StorageChecks(ManualClock(), MINIO, lambda _: assert_released(release))
    try:
        with pytest.raises(InvalidConfig, match=r"endpoint_url: s3 ours at .*: no answer"):
            await checks.require(MINIO)
    finally:
        release.set()


def assert_released(event: Any) -> None:
    assert event.wait(30)
