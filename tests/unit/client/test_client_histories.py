"""`det` shows events, runs, profiles and code of experiments."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fakes.client_cli import det

if TYPE_CHECKING:
    from client_scripted_master import ScriptedMaster

    from windlass.sdk.wire import Json

OURS = "/api/v1/windlass"
OFFER = {"provider": "x", "region": "r", "zone": "z", "instanceType": "gpu", "market": "spot"}
RUN = {
    "allocationId": "7.a.1",
    "runId": 1,
    "state": "ENDED",
    "outcome": "preempted",
    "requestedAt": "2026-01-01T00:00:00Z",
    "startedAt": "2026-01-01T00:01:00Z",
    "preemptionRequestedAt": None,
    "endedAt": None,
    "exitReason": "spot machine was taken back",
    "machines": [
        {"agentId": "m-1", "slots": 8, "offer": OFFER, "usdPerHour": 1.25},
        {"agentId": "own", "slots": 1, "offer": None, "usdPerHour": None},
    ],
}


def event(number: int) -> Json:
    at = f"2026-01-01T00:00:{number:02}Z"
    return {"at": at, "trialId": 11, "text": f"event {number}", "isProblem": False}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["experiment", "events", "7"], "/experiments/7/events"),
        (["trial", "events", "11"], "/trials/11/events"),
    ],
)
def test_events_are_printed_in_order(
    arguments: list[str], path: str, cluster: ScriptedMaster
) -> None:
    page = {"endIndex": 2, "total": 2}
    cluster.on("GET", OURS + path, {"events": [event(1), event(2)], "pagination": page})
    lines = det(cluster, *arguments, "--csv").stdout.splitlines()
    assert [line.split(",")[1:] for line in lines] == [
        ["Trial", "What happened"],
        ["11", "event 1"],
        ["11", "event 2"],
    ]
    assert det(cluster, *arguments, "--limit", "2", "--columns", "trial").exit_code == 0
    assert cluster.asked[-1].query["orderBy"] == ["ORDER_BY_DESC"]
    newest = json.loads(det(cluster, *arguments, "--limit", "2", "--json").stdout)
    assert [one["text"] for one in newest] == ["event 2", "event 1"], "as sent, turned round"


def test_runs_name_machines_and_prices(cluster: ScriptedMaster) -> None:
    page = {"endIndex": 1, "total": 1}
    cluster.on("GET", f"{OURS}/trials/11/allocations", {"allocations": [RUN], "pagination": page})
    shown = det(cluster, "trial", "allocations", "11", "--csv").stdout
    assert "m-1 (8) spot, own (1)" in shown
    assert "1.2500" in shown
    assert "spot machine was taken back" in shown


def test_a_profile_names_gpus_that_do_almost_nothing(cluster: ScriptedMaster) -> None:
    series = {
        "name": "gpu_util",
        "agentId": "m-1",
        "gpuUuid": "GPU-1",
        "readings": 9,
        "min": 0.0,
        "mean": 0.5,
        "max": 1.0,
    }
    idle = {"agentId": "m-1", "gpuUuid": "GPU-1", "percent": 0.5}
    found: Json = {"series": [series], "idleGpus": [idle]}
    cluster.on("GET", f"{OURS}/trials/11/profile", found)
    result = det(cluster, "trial", "profile", "11")
    assert "gpu_util" in result.stdout
    assert "GPU GPU-1 of m-1 was used 0.5 %" in result.stderr
    cluster.on("GET", f"{OURS}/trials/12/profile", {"series": [], "idleGpus": []})
    assert "Nothing was measured" in det(cluster, "trial", "profile", "12").stderr


def test_code_is_found_and_downloaded(cluster: ScriptedMaster, tmp_path: Path) -> None:
    hit = {"path": "train.py", "line": 3, "text": "lr = 1"}
    cluster.on("GET", f"{OURS}/experiments/7/code/find", {"hits": [hit], "total": 2, "files": 1})
    result = det(cluster, "e", "find-in-code", "7", "lr", "-i")
    assert "train.py" in result.stdout
    assert "1 of 2 lines" in result.stderr
    packed = {"b64Tgz": b64encode(b"tar").decode()}
    cluster.on("GET", "/api/v1/experiments/7/model_def", packed)
    result = det(cluster, "e", "download-model-def", "7", "-o", str(tmp_path / "new"))
    assert Path(result.stdout.strip()).read_bytes() == b"tar"
    cluster.on("GET", "/api/v1/experiments/8/model_def", {"b64Tgz": ""})
    refused = det(cluster, "e", "download-model-def", "8")
    assert (refused.exit_code, "without files" in refused.stderr) == (1, True)
