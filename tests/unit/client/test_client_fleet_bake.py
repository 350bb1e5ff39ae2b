"""`det fleet bake`: what it sends, what it says while it waits, how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

BAKES = "/api/v1/windlass/fleet/bakes"
BAKE: dict[str, Any] = {
    "id": "bake-1",
    "pool": "gpu",
    "state": "installing",
    "note": "being launched",
    "offer": "aws/us-east-1a/g5.xlarge/on_demand",
    "instanceId": "",
    "imageName": "windlass-gpu-1",
    "imageId": "",
    "setting": "",
    "error": "",
    "by": "admin",
    "usd": 0.0,
    "createdAt": "2026-11-22T10:00:00Z",
    "endedAt": None,
}
READY = {
    **BAKE,
    "state": "ready",
    "note": "",
    "imageId": "ami-1",
    "setting": "image_id: ami-1",
    "usd": 0.25,
}
FAILED = {**BAKE, "state": "failed", "note": "", "error": "its boot failed: no engine"}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    return master


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.cli.fleet.bake.POLL_S", 0.0)


def det(master: ScriptedMaster, *words: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, "fleet", "bake", *words])


def states(master: ScriptedMaster, *seen: dict[str, Any]) -> None:
    """What the master answers, one after another, and then always the last."""
    left = list(seen)

    def answer(_: object) -> tuple[int, Any]:
        return 200, {"bakes": [left.pop(0) if len(left) > 1 else left[0]]}

    master.on("GET", BAKES, answer)
    master.on("POST", BAKES, {"bake": BAKE})
    master.on("DELETE", f"{BAKES}/bake-1", {"bake": {**BAKE, "state": "cleaning", "note": ""}})


def test_each_step_is_said_once_and_the_line_to_write_at_the_end(cluster: ScriptedMaster) -> None:
    imaging = {**BAKE, "state": "imaging", "note": "AWS makes ami-1"}
    states(cluster, BAKE, BAKE, imaging, imaging, READY)
    result = det(cluster, "gpu", "--type", "g5.xlarge")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "Baking pool gpu on aws/us-east-1a/g5.xlarge/on_demand (bake-1)",
        "installing: being launched",
        "imaging: AWS makes ami-1",
        "Image windlass-gpu-1 is ready; its machine cost 0.2500 USD",
        "In the provider of pool gpu in master.yaml, write:",
        "",
        "    image_id: ami-1",
        "",
        "and restart the master",
    ]
    (asked,) = cluster.calls("POST", BAKES)
    assert asked.body == {"pool": "gpu", "instanceType": "g5.xlarge"}


def test_one_that_fails_says_why_and_what_to_do(cluster: ScriptedMaster) -> None:
    states(cluster, FAILED)
    result = det(cluster, "gpu")
    assert result.exit_code == 1
    assert "No image of pool gpu, and nothing of it is left: its boot failed: no engine" in (
        result.stdout
    )
    assert json.loads(det(cluster, "gpu", "--json").stdout) == FAILED


def test_without_waiting_it_is_only_begun(cluster: ScriptedMaster) -> None:
    states(cluster, BAKE)
    result = det(cluster, "gpu", "--no-wait")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    assert not cluster.calls("GET", BAKES)


def test_a_bake_is_cancelled_by_its_pool(cluster: ScriptedMaster) -> None:
    states(cluster, BAKE, {**FAILED, "error": "cancelled by admin"})
    result = det(cluster, "gpu", "--cancel")
    assert result.exit_code == 0, result.output
    assert "nothing of it is left: cancelled by admin" in result.stdout
    states(cluster, FAILED)
    result = det(cluster, "gpu", "--cancel")
    assert result.exit_code == 1


def test_they_are_listed(cluster: ScriptedMaster) -> None:
    states(cluster, READY)
    assert "ami-1" in det(cluster, "--list").stdout
    assert json.loads(det(cluster, "--list", "--json").stdout) == [READY]
    assert json.loads(det(cluster, "cpu", "--list", "--json").stdout) == []


def test_a_pool_has_to_be_named(cluster: ScriptedMaster) -> None:
    assert det(cluster).exit_code == 1
