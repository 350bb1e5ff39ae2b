"""A trial that is interrupted in the middle of an epoch, on whichever cloud."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually
from tests.stores import read_rows

INTERRUPTED_MODEL = Path(__file__).parents[1] / "notices" / "model"
INTERRUPTED: dict[str, Any] = {
    "name": "interrupted",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "resources": {"resource_pool": "compute", "slots_per_trial": 2},
    "max_restarts": 0,
}


def quiet_losses() -> list[float]:
    """Of a run that nobody interrupts."""
    spec = importlib.util.spec_from_file_location(
        "interrupted_train", INTERRUPTED_MODEL / "train.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values = [1.0]
    for epoch in range(1, module.EPOCHS + 1):
        values.append(module.loss(values[-1], epoch))
    return values[1:]


def _more_than(first: str, living: set[str]) -> set[str] | None:
    return living if living - {first} else None


def goes_on_elsewhere(
    cluster: RealCluster,
    experiment: int,
    living: Callable[[], set[str]],
    interrupt: Callable[[str], None],
) -> None:
    """`living`: the ids of machines that run. `interrupt`: announce that the machine of that id is taken back."""
    (trial,) = eventually("it is submitted", lambda: cluster.trials(experiment))
    eventually("it is in mid-epoch", lambda: "in the fifth epoch" in cluster.logs_of(trial["id"]))
    (first,) = living()
    interrupt(first)

    both = eventually("another machine is asked for", lambda: _more_than(first, living()))
    assert first in both, "while the first still lives"
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    database = cluster.data_dir / "windlass.db"
    (row,) = read_rows(database, "trial", "id")
    assert row["restarts"] == 0
    reported = [each for each in read_rows(database, "metric", "id") if not each["archived"]]
    losses = [each["metrics"]["avg_metrics"]["loss"] for each in reported]
    assert losses == pytest.approx(quiet_losses()), "no epoch lost, none repeated"
    runs = [each["document"] for each in read_rows(database, "allocation", "id")]
    assert len(runs) == 2
    assert f"agent {first} goes at" in runs[0]["preempt_reason"]
    assert "spot interruption" in runs[0]["preempt_reason"]
    assert not runs[0]["kill_reason"], "its checkpoint was written within the notice"
