"""A provider takes a machine back in mid-epoch: real processes from its notice to the same metrics elsewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.real_cluster import RealCluster, embedded_pool, eventually
from tests.stores import read_rows

MODEL = Path(__file__).parent / "model"
NOTICE_S = 300
CONFIG = {
    "name": "taken back",
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "resources": {"resource_pool": "compute", "slots_per_trial": 2},
    "max_restarts": 0,
}


def losses() -> list[float]:
    """Of a run that nobody interrupts."""
    spec = importlib.util.spec_from_file_location("taken_back_train", MODEL / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values = [1.0]
    for epoch in range(1, module.EPOCHS + 1):
        values.append(module.loss(values[-1], epoch))
    return values[1:]


def test_training_moves_before_its_machine_dies_and_goes_on_with_the_same_metrics(
    tmp_path: Path,
) -> None:
    pool = embedded_pool(max_instances=2, max_idle_agent_period="1h")
    with RealCluster(tmp_path, {"resource_pools": [pool]}) as cluster:
        experiment = cluster.submit(CONFIG, MODEL)
        eventually("it is submitted", lambda: cluster.trials(experiment))
        (trial,) = cluster.trials(experiment)
        eventually(
            "it is in mid-epoch", lambda: "in the fifth epoch" in cluster.logs_of(trial["id"])
        )
        (first,) = cluster.hosts()
        instances = cluster.data_dir / "instances" / "compute"
        (instances / first / "notice").write_text(str(NOTICE_S))

        def more_than_the_first() -> set[str] | None:
            there = set(cluster.hosts())
            return there if there - {first} else None

        both = eventually("another machine is there", more_than_the_first)
        assert first in both, "its replacement was asked for while it lived"
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"

        database = cluster.data_dir / "windlass.db"
        (row,) = read_rows(database, "trial", "id")
        assert row["restarts"] == 0
        assert row["latest_searcher_metric"] == pytest.approx(losses()[-1])
        reported = [r for r in read_rows(database, "metric", "id") if not r["archived"]]
        assert [r["metrics"]["avg_metrics"]["loss"] for r in reported] == pytest.approx(losses())
        runs = [r["document"] for r in read_rows(database, "allocation", "id")]
        assert len(runs) == 2
        assert f"agent {first} goes at" in runs[0]["preempt_reason"]
        assert "taken back by the site" in runs[0]["preempt_reason"]
        assert not runs[0]["kill_reason"], "it left by itself"

        eventually("it is ended, for its work has left", lambda: first not in cluster.hosts())
