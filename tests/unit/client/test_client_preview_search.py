"""`det preview-search`: what it sends and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

URL = "/api/v1/preview-hp-search"
SUMMARY = {
    "config": {"name": "adaptive_asha", "metric": "loss", "max_length": None},
    "trials": [
        {"count": 4, "unit": {"name": "batches", "value": 100, "maxLength": False}},
        {"count": 1, "unit": {"name": None, "value": None, "maxLength": True}},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "search.yaml"
    path.write_text("searcher: {name: adaptive_asha}\n")
    return path


def preview(master: ScriptedMaster, *arguments: str) -> Result:
    log_in(master)
    return CliRunner().invoke(app, ["-m", master.url, "preview-search", *arguments])


def test_it_shows_the_search_and_its_trials(master: ScriptedMaster, file: Path) -> None:
    master.on("POST", URL, {"summary": SUMMARY})
    assert preview(master, str(file)).stdout.splitlines() == [
        "Using search configuration:",
        "name: adaptive_asha",
        "metric: loss",
        "Trials  Training Time",
        "4       train for 100 batches",
        "1       train to completion",
    ]
    (asked,) = master.calls("POST", URL)
    assert asked.body == {"config": {"searcher": {"name": "adaptive_asha"}}}
    assert json.loads(preview(master, str(file), "--json").stdout) == SUMMARY


def test_a_file_without_a_searcher_is_not_sent(master: ScriptedMaster, file: Path) -> None:
    file.write_text("name: a\n")
    result = preview(master, str(file))
    assert result.exit_code == 1
    assert f"{file}: the section `searcher` is missing" in result.stderr
