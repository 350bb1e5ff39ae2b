"""`det experiment create --preview`: what it sends and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster

from tests.fakes.client_cli import det

PREVIEW = "/api/v1/windlass/experiments/preview"
REFUSED: dict[str, Any] = {
    "problems": [
        {"path": "max_restarts", "message": "must be an integer", "line": 3},
        {"path": "searcher", "message": "metric is a required property", "line": None},
        {"path": "", "message": "too large", "line": None},
    ]
}
ACCEPTED: dict[str, Any] = {
    "problems": [],
    "projectId": 1,
    "config": {"max_restarts": 0, "name": "digits"},
    "origins": [
        {"path": "max_restarts", "source": "POLICY", "name": "the cluster"},
        {"path": "name", "source": "SUBMITTED", "name": ""},
    ],
    "warnings": [],
    "configWarnings": ["max_restarts is 0"],
    "trials": [{"count": 3, "unit": {"name": None, "value": None, "maxLength": True}}],
    "plan": {
        "asked": [
            {
                "pool": "gpu",
                "slots": 8,
                "runs": 3,
                "outcome": "starts",
                "reason": None,
                "fallBack": None,
            }
        ],
        "launches": [],
        "usdPerHour": 0.0,
        "waiting": [],
        "considered": [],
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("name: digits\n")
    return path


def test_it_shows_what_would_become_of_it(cluster: ScriptedMaster, file: Path) -> None:
    cluster.on("POST", PREVIEW, ACCEPTED)
    done = det(cluster, "experiment", "create", str(file), "--preview", "--template", "base")
    assert done.exit_code == 0, done.output
    assert "warning: max_restarts is 0" in done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines == [
        "Trials Training Time",
        "3 train to completion",
        "Key Value From",
        "max_restarts 0 config policy of the cluster",
        "3 runs of 8 slots in pool gpu: start now, on free slots",
        "Nothing would be launched now",
    ]
    (asked,) = cluster.calls("POST", PREVIEW)
    assert (asked.body["config"], asked.body["template"]) == ("name: digits\n", "base")
    assert not cluster.calls("POST", "/api/v1/experiments")


def test_what_would_be_refused_is_told_with_its_line(cluster: ScriptedMaster, file: Path) -> None:
    cluster.on("POST", PREVIEW, REFUSED)
    done = det(cluster, "experiment", "create", str(file), "--preview")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"error: {file}:3: max_restarts: must be an integer",
        f"error: {file}: searcher: metric is a required property",
        f"error: {file}: too large",
    ]
    told = det(cluster, "experiment", "create", str(file), "--preview", "--json")
    assert (told.exit_code, json.loads(told.stdout)) == (1, REFUSED)
