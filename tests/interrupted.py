"""A trial whose machine is taken back in the middle of an epoch, by whichever provider."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually
from tests.stores import read_rows

MODEL = Path(__file__).parent / "integration/notices/model"


def config_of(folder: Path, pool: dict[str, Any]) -> dict[str, Any]:
    """The master.yaml of a cluster in `folder`; trials may wait for gates in it."""
    return {"resource_pools": [pool], "allowed_host_paths": [str(folder)]}


def interrupted_trial(gates: Path) -> dict[str, Any]:
    """It saves and leaves when it is asked to, and not before there is a file `open` in the folder `gates`."""
    return {
        "name": "interrupted",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": [{"host_path": str(gates), "container_path": "/gates"}],
        "searcher": {"name": "single", "metric": "loss"},
        "resources": {"resource_pool": "compute", "slots_per_trial": 2},
        "max_restarts": 0,
    }


def quiet_losses() -> list[float]:
    """Of a run that nobody interrupts."""
    spec = importlib.util.spec_from_file_location("interrupted_train", MODEL / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values = [1.0]
    for epoch in range(1, module.EPOCHS + 1):
        values.append(module.loss(values[-1], epoch))
    return values[1:]


def goes_on_elsewhere(
    cluster: RealCluster,
    living: Callable[[], set[str]],
    interrupt: Callable[[str], None],
    because: str = "spot interruption",
) -> str:
    """The first machine of a trial that moves to another. `living`: the ids of machines that run.

    `interrupt`: announce that the machine of that id is taken back. The trial holds it until another was asked for.
    """
    gates = cluster.folder / "gates"
    gates.mkdir()
    experiment = cluster.submit(interrupted_trial(gates), MODEL)
    (trial,) = eventually("it is submitted", lambda: cluster.trials(experiment))
    eventually("it is in mid-epoch", lambda: "in the fifth epoch" in cluster.logs_of(trial["id"]))
    (first,) = living()
    interrupt(first)

    eventually("another machine is asked for, while the trial runs", lambda: living() - {first})
    assert first in living(), "it ended while its trial ran"
    (gates / "open").touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    database = cluster.data_dir / "windlass.db"
    (row,) = read_rows(database, "trial", "id")
    assert row["restarts"] == 0
    assert row["latest_searcher_metric"] == pytest.approx(quiet_losses()[-1])
    reported = [each for each in read_rows(database, "metric", "id") if not each["archived"]]
    losses = [each["metrics"]["avg_metrics"]["loss"] for each in reported]
    assert losses == pytest.approx(quiet_losses()), "no epoch lost, none repeated"
    runs = [each["document"] for each in read_rows(database, "allocation", "id")]
    assert len(runs) == 2
    assert f"agent {first} goes at" in runs[0]["preempt_reason"]
    assert because in runs[0]["preempt_reason"]
    assert not runs[0]["kill_reason"], "its checkpoint was written within the notice"
    return first
