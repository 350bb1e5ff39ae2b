"""Rows of experiments and trials, to fill stores with thousands of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from master.store import tables
from master.store.unit_of_work import UnitOfWork

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def experiment(id_: int) -> dict[str, Any]:
    """One that is over, with a configuration of several kilobytes."""
    config = {
        "name": f"experiment {id_}",
        "entrypoint": "python3 train.py",
        "searcher": {"name": "random", "metric": "loss", "max_trials": 2_000},
        "hyperparameters": {
            f"h{n}": {"type": "double", "minval": 0, "maxval": 1} for n in range(10)
        },
        "resources": {"resource_pool": "default", "slots_per_trial": 1},
        "rest": {f"option-{n}": "x" * 40 for n in range(60)},
    }
    return {
        "id": id_,
        "job_id": f"job-{id_}",
        "owner_id": 2,
        "project_id": 1,
        "state": "COMPLETED",
        "name": f"experiment {id_}",
        "labels": [],
        "config": config,
        "model_files": [],
        "created_at": NOW,
        "ended_at": NOW,
    }


def trial(id_: int) -> dict[str, Any]:
    """Of experiment 1."""
    stats = {"type": "number", "count": 9, "sum": 4.5, "mean": 0.5, "max": 1, "min": 0, "last": 0.5}
    return {
        "id": id_,
        "experiment_id": 1,
        "request_id": f"r{id_}",
        "task_id": f"t{id_}",
        "state": "COMPLETED",
        "hparams": {f"h{n}": id_ / 2_000 for n in range(10)},
        "seed": id_,
        "avoids": [],
        "searcher_metric": id_ / 2_000,
        "summary_metrics": {"validation_metrics": {f"m{n}": stats for n in range(10)}},
        "metric_groups": {},
        "created_at": NOW,
        "ended_at": NOW,
    }


def with_project() -> UnitOfWork:
    """The user and the project of `experiment`, in an empty store."""
    now = {"created_at": NOW, "modified_at": NOW}
    unit = UnitOfWork()
    unit.insert(tables.User, {"id": 2, "username": "ann", **now})
    unit.insert(tables.Workspace, {"id": 1, "name": "w", "user_id": 2})
    unit.insert(tables.Project, {"id": 1, "workspace_id": 1, "name": "p", "user_id": 2})
    return unit
