"""`det fleet decisions` and `batch-jobs`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.fakes.client_cli import det

if TYPE_CHECKING:
    from client_scripted_master import ScriptedMaster

DECISIONS, BATCH_JOBS = "/api/v1/windlass/fleet/decisions", "/api/v1/windlass/fleet/batch-jobs"
WEIGHED = {
    "offer": "site/east-1/gpu-8/spot",
    "machines": 1,
    "usdPerHour": 2.0,
    "usdPerWorkHour": None,
    "launched": 0,
    "whyNot": "InsufficientInstanceCapacity; retrying at 15:00:00 UTC",
}
DECISION: dict[str, Any] = {
    "id": "d",
    "pool": "gpu",
    "kind": "refused",
    "reason": "no capacity anywhere",
    "stands": True,
    "firstAt": "2026-11-22T14:00:00.000000Z",
    "lastAt": "2026-11-22T15:00:00.000000Z",
    "times": 1800,
    "offer": "",
    "machines": 0,
    "slots": 8,
    "usdPerHour": None,
    "runs": 3,
    "jobs": ["j"],
    "instances": [],
    "said": "",
    "weighed": 1,
    "alternatives": [WEIGHED],
}


def test_decisions_are_listed_by_what_they_are_about(cluster: ScriptedMaster) -> None:
    page = {"offset": 0, "limit": 100, "startIndex": 0, "endIndex": 1, "total": 2}
    cluster.on("GET", DECISIONS, {"decisions": [DECISION], "pagination": page})
    done = det(cluster, "fleet", "decisions", "--pool", "gpu", "--kind", "refused", "--limit", "1")
    (asked,) = cluster.calls("GET", DECISIONS)
    assert {name: asked.query[name][0] for name in ("pool", "kind", "limit", "offset")} == {
        "pool": "gpu",
        "kind": "refused",
        "limit": "1",
        "offset": "0",
    }
    for text in ("refused, stands", "1800", "no capacity anywhere", "2026-11-22"):
        assert text in done.stdout
    assert "The newest 1 of 2" in done.stderr
    told = det(cluster, "fleet", "decisions", "--weighed", "--limit", "1").stdout
    assert "InsufficientInstanceCapacity; retrying at 15:00:00 UTC" in told
    printed = det(cluster, "fleet", "decisions", "--json", "--limit", "1").stdout
    assert json.loads(printed) == [DECISION]


def test_batch_jobs_are_listed_with_their_work(cluster: ScriptedMaster) -> None:
    job = {
        "name": "wl-1",
        "system": "slurm",
        "jobId": "17",
        "pool": "gpu",
        "queue": "",
        "purpose": "run",
        "stage": "queued",
        "siteState": "PENDING",
        "reason": "Slurm job 17 waits: Priority",
        "nodes": 2,
        "slots": 8,
        "nodeNames": [],
        "walltimeS": 7200.0,
        "createdAt": "2026-11-22T14:00:00.000000Z",
        "startsAt": None,
        "endsAt": None,
        "user": "",
        "account": "",
        "runs": 2,
        "work": [{"jobId": "j", "allocationId": "1.1", "name": "Trial 3"}],
    }
    cluster.on("GET", BATCH_JOBS, {"jobs": [job]})
    done = det(cluster, "fleet", "batch-jobs")
    for text in ("17", "PENDING", "2h", "Trial 3, 1 of others", "Slurm job 17 waits: Priority"):
        assert text in done.stdout
    assert json.loads(det(cluster, "fleet", "batch-jobs", "--json").stdout) == [job]
