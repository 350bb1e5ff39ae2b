"""Whatever keeps a pool from buying, the user of the job reads it in one sentence: by command line and over REST."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.shell import DET
from tests.real_cluster import RealCluster, embedded_pool, eventually

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Case:
    kind: str
    words: tuple[str, ...]
    faults: list[dict[str, Any]] = field(default_factory=list)
    pool: dict[str, Any] = field(default_factory=dict)
    provider: dict[str, Any] = field(default_factory=dict)


CASES = {
    "quota": Case(
        "quota",
        ("quota GPUS (limit 8) is used up: VcpuLimitExceeded", "retrying at"),
        [
            {
                "call": "launch",
                "kind": "quota",
                "message": "VcpuLimitExceeded",
                "quota": "GPUS",
                "number": 8,
            }
        ],
    ),
    "expired": Case(
        "credentials",
        ("expired does not accept the cluster's credentials: ExpiredToken",),
        [{"call": "launch", "kind": "auth", "message": "ExpiredToken"}],
    ),
    "throttled": Case(
        "throttled",
        ("throttled is throttling calls: RequestLimitExceeded", "launching 1 x"),
        [{"call": "launch", "kind": "throttled", "message": "RequestLimitExceeded"}],
    ),
    "unreachable": Case(
        "unreachable",
        ("unreachable cannot be reached or has failed: no route to host",),
        [{"call": "list", "kind": "transient", "message": "no route to host"}],
    ),
    "queued": Case(
        "queued_at_provider",
        ("queued at queued for", "(Resources); expected to start at 20"),
        provider={"queue_time": "1h"},
    ),
    "budget": Case(
        "over_budget",
        ("1.00 USD per hour", "2.00"),
        pool={"budget": {"usd_per_hour": 1.0}},
    ),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    pools = []
    for name, case in CASES.items():
        pool = embedded_pool(pool_name=name, **case.pool)
        pool["provider"].update(case.provider)
        pools.append(pool)
    with RealCluster(tmp_path_factory.mktemp("waits"), {"resource_pools": pools}) as one:
        for name, case in CASES.items():
            site = one.data_dir / "instances" / name
            site.mkdir(parents=True, exist_ok=True)
            if case.faults:
                (site / "faults.json").write_text(json.dumps(case.faults))
        yield one


def det(cluster: RealCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DET, "-m", cluster.url, *words],
        env={
            **os.environ,
            "HOME": str(cluster.folder),
            "COLUMNS": "400",
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def config(pool: str, slots: int = 2) -> dict[str, Any]:
    return {
        "name": pool,
        "entrypoint": "sleep 1",
        "searcher": {"name": "single", "metric": "loss"},
        "resources": {"resource_pool": pool, "slots_per_trial": slots},
    }


@pytest.mark.parametrize("name", CASES)
def test_the_user_reads_it_in_one_sentence(cluster: RealCluster, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    (tmp_path / "model").mkdir()
    experiment = cluster.submit(config(name), tmp_path / "model")

    def reason() -> dict[str, Any] | None:
        found = cluster.get(f"/api/v1/windlass/experiments/{experiment}/reasons")
        return next((r for r in found["reasons"].values() if r["kind"] == case.kind), None)

    said = eventually(f"{name} is told", reason)
    for words in case.words:
        assert words in said["text"]
    assert "\n" not in said["text"]
    for command in (
        ("job", "explain", str(experiment)),
        ("experiment", "describe", str(experiment)),
    ):
        shown = det(cluster, *command)
        assert shown.returncode == 0, shown.stderr
        line = next((x for x in shown.stdout.splitlines() if case.words[0] in x), "")
        assert line, f"{command}: {shown.stdout}"
    cluster.client.session.post(f"/api/v1/experiments/{experiment}/kill")


def test_what_is_impossible_is_refused_with_the_nearest_that_fits(
    cluster: RealCluster, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(config("quota", slots=7)))
    said = det(cluster, "experiment", "create", str(file), str(tmp_path / "model"))
    assert said.returncode != 0
    assert "7 slots" in said.stderr
    assert "4" in said.stderr, "two machines of two"
