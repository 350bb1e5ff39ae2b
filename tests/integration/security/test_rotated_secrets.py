"""Secrets of master.yaml are looked up when a task starts: rotated ones reach work that waited."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.real_cluster import RealCluster

TRAIN = """
import json, os
from windlass import core
key = json.loads(os.environ["DET_EXPERIMENT_CONFIG"])["environment"]["registry_auth"]["password"]
with core.init() as context:
    print(f"given {os.environ['SITE_TOKEN']} and {key}", flush=True)
"""
CONFIG = {
    "name": "waits",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "max_restarts": 0,
}


def config(token: str) -> dict[str, Any]:
    return {
        "launch_error": False,
        "task_container_defaults": {
            "environment_variables": [f"SITE_TOKEN={token}-variable"],
            "registry_auth": {"username": "site", "password": f"{token}-password"},
        },
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    with RealCluster(tmp_path, config("first")) as cluster:
        yield cluster


def test_queued_work_gets_the_new_secret_and_old_rows_go_on(
    cluster: RealCluster, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(TRAIN)
    waits, of_old = cluster.submit(CONFIG, model), cluster.submit(CONFIG, model)
    cluster.kill_master()
    literal = "literal-before-the-upgrade"
    with sqlite3.connect(cluster.data_dir / "windlass.db") as database:
        stored = "".join(row[0] for row in database.execute("select config from experiment"))
        assert "first-" not in stored
        assert "${master.yaml:registry_auth.password}" in stored
        database.execute(
            "update experiment set config = replace(replace(config, ?, ?), ?, ?) where id = ?",
            (
                *("${master.yaml:environment_variables.cpu.SITE_TOKEN}", literal),
                *("${master.yaml:registry_auth.password}", literal),
                of_old,
            ),
        )
    document = yaml.safe_load(cluster.config_file.read_text())
    cluster.config_file.write_text(yaml.safe_dump({**document, **config("second")}))
    cluster.start_master()
    cluster.start_agent("node")
    for experiment, given in (
        (waits, "given second-variable and second-password"),
        (of_old, f"given {literal} and {literal}"),
    ):
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
        assert given in cluster.logs_of(int(cluster.trials(experiment)[0]["id"]))
