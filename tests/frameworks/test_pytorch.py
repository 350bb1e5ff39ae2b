"""PyTorch through the published harness: alone, on two nodes, interrupted in every way. A quiet run is the measure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from conftest import LOAD_ALL, MODELS, REPOSITORY, config_of
from runs import (
    LAUNCHER,
    ON_TWO_NODES,
    PATIENCE_S,
    begun,
    completed,
    final_metrics,
    kill_a_rank,
    preempted,
    run,
)

from tests.real_cluster import RealCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def quiet(cluster: RealCluster, torch_python: Path) -> Callable[[int], dict[str, Any]]:
    """By number of slots: the final metrics of a run that nobody interrupts."""
    known: dict[int, dict[str, Any]] = {}

    def metrics(slots: int) -> dict[str, Any]:
        if slots not in known:
            config = config_of(
                torch_python, "model:DigitsTrial", resources={"slots_per_trial": slots}
            )
            known[slots] = final_metrics(cluster, run(cluster, config, "digits"))
        return known[slots]

    return metrics


def test_a_trial_class_learns(quiet: Callable[[int], dict[str, Any]]) -> None:
    metrics = quiet(1)
    assert metrics["accuracy"] > 0.9
    assert metrics["val_loss"] < 1.0


def test_a_script_with_the_trainer_learns_the_same(
    cluster: RealCluster, torch_python: Path, quiet: Callable[[int], dict[str, Any]]
) -> None:
    experiment = run(cluster, config_of(torch_python, "python3 train.py"), "digits")
    assert final_metrics(cluster, experiment) == pytest.approx(quiet(1))


def test_the_example_of_the_pages_searches(cluster: RealCluster, torch_python: Path) -> None:
    example = REPOSITORY / "examples/pytorch_trial"
    config = yaml.safe_load((example / "search.yaml").read_text(encoding="utf-8"))
    here = config_of(torch_python, config["entrypoint"])
    here["environment"]["environment_variables"].remove(LOAD_ALL)  # the example itself has it
    here["environment"]["environment_variables"] += config["environment"]["environment_variables"]
    experiment = cluster.submit(
        {**config, "environment": here["environment"], "bind_mounts": here["bind_mounts"]}, example
    )
    ended = cluster.wait(experiment, patience_s=PATIENCE_S)
    trials = cluster.trials(experiment)
    assert ended["state"] == "STATE_COMPLETED", cluster.logs_of(trials[0]["id"])
    assert len(trials) == config["searcher"]["max_trials"]
    whole = config["searcher"]["max_time"] * 1280 // config["hyperparameters"]["batch_size"]
    assert max(trial["totalBatchesProcessed"] for trial in trials) == whole
    assert {trial["restarts"] for trial in trials} == {0}


def test_ranks_on_two_nodes_train_one_model(cluster: RealCluster, torch_python: Path) -> None:
    config = config_of(torch_python, f"{LAUNCHER} python3 train.py", **ON_TWO_NODES)
    experiment = run(cluster, config, "ddp")
    (trial,) = cluster.trials(experiment)
    log = cluster.logs_of(trial["id"])
    assert "rank 0 of 2, node 0" in log
    assert "rank 1 of 2, node 1" in log


@pytest.mark.parametrize("slots", [1, 2])
def test_preempted_in_an_epoch_it_ends_as_a_quiet_run(
    cluster: RealCluster, torch_python: Path, quiet: Callable[[int], dict[str, Any]], slots: int
) -> None:
    config = config_of(torch_python, "model:DigitsTrial", resources={"slots_per_trial": slots})
    assert preempted(cluster, config, "digits") == pytest.approx(quiet(slots))


def kill_a_node(cluster: RealCluster) -> None:
    """The agent, and at the same moment everything that it started."""
    started = [p for p in cluster.processes() if any("/node-b" in word for word in p.cmdline())]
    trees = [child for p in started for child in p.children(recursive=True)]
    for process in (*started, *trees):
        with suppress(psutil.Error):
            process.kill()
    cluster.kill_agent("node-b")
    cluster.start_agent("node-b", slots=1)


def kill_the_master(cluster: RealCluster) -> None:
    cluster.kill_master()
    cluster.start_master()


@pytest.mark.parametrize(
    ("kill", "restarts"), [(kill_a_rank, 1), (kill_a_node, None), (kill_the_master, 0)]
)
def test_killed_in_an_epoch_it_ends_as_a_quiet_run(
    cluster: RealCluster,
    torch_python: Path,
    quiet: Callable[[int], dict[str, Any]],
    kill: Callable[[RealCluster], None],
    restarts: int | None,
) -> None:
    expected = quiet(2)
    config = config_of(torch_python, "model:DigitsTrial", **ON_TWO_NODES, max_restarts=2)
    experiment = cluster.submit(config, MODELS / "digits")
    begun(cluster, experiment)
    kill(cluster)
    trial = completed(cluster, experiment)
    assert final_metrics(cluster, experiment) == pytest.approx(expected)
    if restarts is not None:
        assert trial["restarts"] == restarts
