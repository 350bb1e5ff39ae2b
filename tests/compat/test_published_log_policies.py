"""Logs of trials, and their policies, by the unmodified published client: its SDK and its command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.published import COMPAT, PublishedDet, needs_published
from tests.real_cluster import RealCluster

pytestmark = needs_published
SCRIPT = Path(__file__).parent / "published_log_policies.py"
MODEL = Path(__file__).parent / "own_experiment"
BAD_DATA = {"name": "bad data", "pattern": "KeyError: .label", "action": "cancel_retries"}
SHOWN = {"name": "diverged", "pattern": "loss is nan"}
OFF = {"name": "ECC Error"}
CONFIG: dict[str, Any] = {
    "name": "policies",
    "entrypoint": ["sh", "-c", "echo loss is nan; echo \"KeyError: 'label'\"; exit 1"],
    "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
    "resources": {"slots_per_trial": 1},
    "max_restarts": 3,
    "log_policies": [SHOWN, BAD_DATA, OFF],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("policies")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


def by_sdk(cluster: RealCluster, **settings: Any) -> dict[str, Any]:
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "DET_MASTER": cluster.url}
    done = subprocess.run(
        [COMPAT / "python", SCRIPT, json.dumps({**CONFIG, **settings}), MODEL],
        env={**environment, **cluster.login_as()},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_the_last_policy_that_matched_is_shown_and_the_failure_is_final(
    cluster: RealCluster,
) -> None:
    told = by_sdk(cluster)
    log = "".join(told["logs"])
    assert (told["state"], told["restarts"]) == ("STATE_ERROR", 0), log
    assert told["matched"] == ["bad data", "bad data"]
    assert "trial failed and matched logs to a don't retry policy" in log
    assert "matched regex KeyError: .label) therefore will not be run again" in log
    stored = {one["name"]: one for one in told["policies"]}
    assert stored["bad data"]["pattern"] == BAD_DATA["pattern"]
    assert set(stored) == {"CUDA OOM", "ECC Error", "bad data", "diverged"}


def test_without_an_action_only_its_name_is_shown(cluster: RealCluster) -> None:
    told = by_sdk(cluster, log_policies=[SHOWN], max_restarts=1)
    assert (told["state"], told["restarts"]) == ("STATE_ERROR", 1)
    assert told["matched"] == ["diverged", "diverged"]
    assert "therefore" not in "".join(told["logs"])


def test_the_command_line_submits_and_shows_them(cluster: RealCluster, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    with PublishedDet(cluster) as det:
        said = det("experiment", "create", str(file), str(MODEL))
        id_ = int(said.split("Created experiment ")[1].split()[0])
        assert cluster.wait(id_)["state"] == "STATE_ERROR"
        config = yaml.safe_load(det("experiment", "config", str(id_)))
        (trial,) = cluster.trials(id_)
        log = det("trial", "logs", str(trial["id"]))
        bad = tmp_path / "bad.yaml"
        ahead = {"pattern": "a(?=b)", "action": "exclude_node"}
        bad.write_text(yaml.safe_dump({**CONFIG, "log_policies": [ahead]}))
        refused = det.run("experiment", "create", str(bad), str(MODEL))
    assert BAD_DATA["name"] in [one["name"] for one in config["log_policies"]]
    assert log.count("therefore will not be run again after a failure") == 1
    assert refused["code"] != 0
    assert "log_policies" in refused["said"]


def test_a_nul_is_shown_as_it_was_written_and_lines_with_one_are_found(
    cluster: RealCluster, tmp_path: Path
) -> None:
    file = tmp_path / "nul.yaml"
    program = ["printf", "left\\000right\nno such line\n"]
    file.write_text(yaml.safe_dump({**CONFIG, "entrypoint": program, "log_policies": []}))
    with PublishedDet(cluster) as det:
        said = det("experiment", "create", str(file), str(MODEL))
        id_ = int(said.split("Created experiment ")[1].split()[0])
        assert cluster.wait(id_)["state"] == "STATE_COMPLETED"
        (trial,) = cluster.trials(id_)
        of_trial = det("trial", "logs", str(trial["id"]))
        of_task = det("task", "logs", str(trial["taskId"]))
    for shown in (of_trial, of_task):
        assert "|| left\0right\n" in shown
    path = f"/api/v1/trials/{trial['id']}/logs"
    for search in ({"searchText": "right"}, {"searchText": "^left.r", "enableRegex": True}):
        found = cluster.client.session.stream(path, search)
        assert [line["log"] for line in found] == ["left\0right"], search
