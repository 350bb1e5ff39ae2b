"""The published client and harness, unmodified, against a real master: create, follow, preempt, resume, look."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually

ROOT = Path(__file__).parents[2]
COMPAT = ROOT / ".compat" / "bin"
PUBLISHED_PYTHON = {"python": str(COMPAT / "python")}
"""In agent.yaml: what tasks that choose no Python use."""
MODEL = Path(__file__).parent / "core_api"
CONFIG = """
name: published
entrypoint: python3 train.py
searcher: {name: single, metric: val_loss, max_length: {batches: 12}}
hyperparameters: {scale: 3.0}
resources: {slots_per_trial: 1}
max_restarts: 0
checkpoint_storage: {save_trial_latest: 2}
"""

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("published")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=2, options=PUBLISHED_PYTHON)
        yield cluster


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    path.write_text(CONFIG + "environment: {environment_variables: [HELD_AT=3]}\n")
    return path


def start(cluster: RealCluster, *arguments: str) -> subprocess.Popen[str]:
    """The published `det`, with a home of its own so that it has no stored login."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    environment.update(cluster.login_as())
    return subprocess.Popen(
        [COMPAT / "det", "-m", cluster.url, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def det(cluster: RealCluster, *arguments: str) -> str:
    process = start(cluster, *arguments)
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said
    return said


def test_create_and_follow_with_a_preemption_in_between(cluster: RealCluster, config: Path) -> None:
    following = start(cluster, "e", "create", str(config), str(MODEL), "-f")
    first = eventually("an experiment exists", lambda: cluster.client.experiments(archived=None))[0]
    experiment = int(first["id"])
    eventually("training has begun", lambda: steps(cluster, experiment) >= 2)
    assert "Paused experiment" in det(cluster, "e", "pause", str(experiment))
    eventually(
        "the trial has left",
        lambda: (
            cluster.experiment(experiment)["state"] == "STATE_PAUSED"
            and not cluster.get("/api/v1/agents")["agents"][0]["containers"]
        ),
    )
    at_pause = steps(cluster, experiment)
    assert 2 <= at_pause < 12
    assert "Activated experiment" in det(cluster, "e", "activate", str(experiment))
    said, _ = following.communicate(timeout=90)
    assert following.returncode == 0, said
    assert f"Created experiment {experiment}" in said
    assert "step 12 of 12" in said
    assert f"resumed at step {at_pause}" in said
    assert said.count(f"step {at_pause} of 12") == 1, "no step was trained twice"
    assert "STATE_COMPLETED" in cluster.wait(experiment)["state"]
    check_records(cluster, experiment, at_pause)


def steps(cluster: RealCluster, experiment: int) -> int:
    trials = cluster.trials(experiment)
    return int(trials[0]["totalBatchesProcessed"]) if trials else 0


def check_records(cluster: RealCluster, experiment: int, at_pause: int) -> None:
    trial = cluster.trials(experiment)[0]
    assert (trial["restarts"], trial["totalBatchesProcessed"]) == (0, 12)
    assert trial["searcherMetricValue"] == pytest.approx(1 / 12)
    summary = trial["summaryMetrics"]["avg_metrics"]["loss"]
    assert (summary["count"], summary["last"]) == (12, pytest.approx(3.0 / 12))
    uuids = cluster.client.checkpoints(experiment)
    assert sorted(c["metadata"]["steps_completed"] for c in uuids) == [at_pause, 12]


def test_listings_and_descriptions(cluster: RealCluster) -> None:
    assert "published" in det(cluster, "e", "list", "-a")
    described: list[dict[str, Any]] = json.loads(det(cluster, "e", "describe", "1", "--json"))
    assert described[0]["experiment"]["state"] == "STATE_COMPLETED"
    assert "COMPLETED" in det(cluster, "t", "describe", "1")
    assert re.search(r"step 12 of 12", det(cluster, "t", "logs", "1"))
    assert "COMPLETED" in det(cluster, "e", "list-trials", "1")
    assert len(re.findall(r"COMPLETED", det(cluster, "e", "list-checkpoints", "1"))) == 2
    assert "node" in det(cluster, "agent", "list")
    assert "determined" in det(cluster, "user", "whoami")
    det(cluster, "version")


def test_the_code_comes_back(cluster: RealCluster, tmp_path: Path) -> None:
    det(cluster, "e", "download-model-def", "1", "--output-dir", str(tmp_path))
    with tarfile.open(tmp_path / "experiment_1_model_def.tgz") as archive:
        member = archive.extractfile("train.py")
        assert member is not None
        assert member.read() == (MODEL / "train.py").read_bytes()


def test_an_invalid_config_is_one_clear_line(cluster: RealCluster, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(CONFIG.replace("max_restarts: 0", "max_restart: 0"))
    process = start(cluster, "e", "create", str(bad), str(MODEL))
    said, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert 'additionalProperties "max_restart" not allowed; did you mean "max_restarts"?' in said
    assert len(cluster.client.experiments(archived=None)) == 1


def test_the_sdk_reads_what_the_master_says(cluster: RealCluster) -> None:
    code = """
import os, sys
from determined.experimental import client
client.login(sys.argv[1], os.environ["DET_USER"], os.environ["DET_PASS"])
experiment = client.get_experiment(1)
assert experiment.wait(interval=0.1).name == "COMPLETED"
trial = experiment.list_trials()[0]
assert trial.hparams == {"scale": 3.0}, trial.hparams
best = experiment.list_checkpoints(
    sort_by=client.CheckpointSortBy.SEARCHER_METRIC, order_by=client.OrderBy.ASC
)[0]
assert best.metadata["steps_completed"] == 12, best.metadata
losses = [m.metrics["loss"] for m in trial.iter_metrics("training")]
assert losses == [3.0 / n for n in range(1, 13)], losses
"""
    environment = {"HOME": str(cluster.folder / "home"), "PATH": os.environ["PATH"]}
    environment.update(cluster.login_as())
    command = [COMPAT / "python", "-c", code, cluster.url]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 0, done.stderr


def test_the_sdk_has_models(cluster: RealCluster) -> None:
    """Each method of its objects of the registry, once."""
    code = """
import os, sys
from determined.core._experimental import ExperimentalCoreContext
from determined.experimental import client
client.login(sys.argv[1], os.environ["DET_USER"], os.environ["DET_PASS"])
trial = client.get_trial(1)
checkpoint = trial.list_checkpoints()[0]
model = client._determined.create_model("50% bird", "finds", {"a": 1}, ["x"])
client.create_model("other")
assert client.get_model(model.model_id).name == client.get_model("50% bird").name == "50% bird"
by_name = client.list_models(sort_by=client.ModelSortBy.NAME, name="BIRD", description="find")
assert [one.model_id for one in by_name] == [model.model_id]
assert [one.name for one in client.list_models(workspace_names=["Uncategorized"])] == ["50% bird", "other"]
assert client.list_models(model_id=model.model_id)[0].labels == ["x"]
assert client.get_model_labels() == ["x"]
model.add_metadata({"b": [2]})
model.remove_metadata(["a"])
model.set_labels(["y", "z"])
model.set_description("sees")
model.move_to_workspace("Uncategorized")
model.archive()
try:
    model.register_version(checkpoint.uuid)
    raise SystemExit("an archived model takes a version")
except Exception as refused:
    assert "is archived" in str(refused), refused
model.unarchive()
model.reload()
assert (model.metadata, model.labels, model.description) == ({"b": [2]}, ["y", "z"], "sees")
assert (model.archived, model.username, model.workspace_id) == (False, os.environ["DET_USER"], 1)
assert model.get_version() is None
first, second = (model.register_version(checkpoint.uuid) for _ in range(2))
assert [one.model_version for one in model.list_versions()] == [2, 1]
assert model.get_version().model_version == 2
second.set_name("best")
second.set_notes("so far")
second.reload()
assert (second.name, second.notes, second.model_id) == ("best", "so far", model.model_id)
assert second.checkpoint.uuid == checkpoint.uuid
context = ExperimentalCoreContext(client._determined._session, trial.id)
context.report_task_using_model_version(second)
assert len(list(second.iter_metrics("training"))) == 12
assert list(first.iter_metrics("training")) == []
context.report_task_using_checkpoint(checkpoint)
assert len(list(checkpoint.get_metrics("training"))) == 12
for delete in (checkpoint.delete, lambda: checkpoint.remove_files(["*"])):
    try:
        delete()
        raise SystemExit("a registered checkpoint was deleted")
    except Exception as refused:
        assert "version 1 of model '50% bird'" in str(refused), refused
first.delete()
assert model.get_version(2).model_version == 2
model.delete()
client.get_model("other").delete()
assert client.list_models() == []
"""
    said(program(cluster, "-c", code, cluster.url))


def test_a_completed_experiment_goes_on_from_its_last_checkpoint(cluster: RealCluster) -> None:
    """The last test of this file: it changes the experiment that the others look at."""
    longer = ["searcher.max_length.batches=15", "hyperparameters.steps=15"]
    options = [word for setting in longer for word in ("--config", setting)]
    said = det(cluster, "e", "continue", "1", *options, "--follow-first-trial")
    assert "Continued experiment 1" in said
    assert cluster.wait(1)["state"] == "STATE_COMPLETED"
    logs = det(cluster, "t", "logs", "1")
    assert "resumed at step 12" in logs
    assert "step 15 of 15" in logs
    (trial,) = cluster.trials(1)
    assert trial["totalBatchesProcessed"] == 15
    assert len(trial["taskIds"]) == 2
    losses = trial["summaryMetrics"]["avg_metrics"]["loss"]
    assert (losses["count"], losses["last"]) == (15, pytest.approx(3.0 / 15))


def program(cluster: RealCluster, *words: str, **more: str) -> subprocess.Popen[str]:
    """A process that the cluster has not started."""
    home = cluster.folder / "laptop"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "DET_MASTER": cluster.url, **more}
    return subprocess.Popen(
        [COMPAT / "python", *words],
        env={**environment, **cluster.login_as()},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(process: subprocess.Popen[str], code: int = 0) -> str:
    output, _ = process.communicate(timeout=90)
    assert process.returncode == code, output
    return output


def unmanaged(cluster: RealCluster, name: str) -> dict[str, Any]:
    found = cluster.get(f"/api/v1/experiments?name={name}&archived=false")["experiments"]
    (experiment,) = [one for one in found if one["unmanaged"]]
    assert isinstance(experiment, dict)
    return experiment


def test_a_process_outside_goes_on_where_it_stopped(cluster: RealCluster) -> None:
    """The program of docs/unmanaged.md, as it is written there, run twice."""
    page = (ROOT / "docs" / "unmanaged.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "step 3" in said(program(cluster, "-c", code))
    assert "step 4" in said(program(cluster, "-c", code))
    experiment = unmanaged(cluster, "on my laptop")
    assert (experiment["state"], experiment["progress"]) == ("STATE_COMPLETED", 1.0)
    (trial,) = cluster.trials(experiment["id"])
    assert (trial["totalBatchesProcessed"], trial["checkpointCount"]) == (6, 2)
    assert trial["searcherMetricValue"] == pytest.approx(1 / 6)
    logged = det(cluster, "trial", "logs", str(trial["id"]))
    assert [n for n in range(1, 7) if f"step {n}" in logged] == [1, 2, 3, 4, 5, 6]
    listed = det(cluster, "experiment", "describe", str(experiment["id"]))
    assert "on my laptop" in listed


def test_other_forms_of_processes_outside(cluster: RealCluster) -> None:
    """Two ranks, with a sharded checkpoint, and a program that fails."""
    forms = str(Path(__file__).with_name("unmanaged_forms.py"))
    two = [
        program(cluster, forms, "ranks", RANK=str(rank), SIZE="2", PORT_OFFSET="41")
        for rank in (0, 1)
    ]
    failing = program(cluster, forms, "failing")
    for process in two:
        said(process)
    said(failing, 3)
    (trial,) = cluster.trials(unmanaged(cluster, "ranks")["id"])
    assert trial["state"] == "STATE_COMPLETED"
    checkpoints = cluster.get(f"/api/v1/trials/{trial['id']}/checkpoints")["checkpoints"]
    assert {"shard-0", "shard-1"} <= set(checkpoints[0]["resources"])
    logged = det(cluster, "trial", "logs", str(trial["id"]))
    assert "[rank=0]" in logged
    assert "[rank=1]" in logged
    assert unmanaged(cluster, "failing")["state"] == "STATE_ERROR"
    refused = start(cluster, "experiment", "pause", str(unmanaged(cluster, "failing")["id"]))
    assert "is unmanaged" in said(refused, 1)
