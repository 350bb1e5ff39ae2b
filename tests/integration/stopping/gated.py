"""An experiment on a real cluster whose trials run until the test lets them end."""

from __future__ import annotations

from pathlib import Path

from tests.real_cluster import RealCluster

MODEL = Path(__file__).parent / "model"


class Gated:
    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._gates = cluster.folder / "gates"
        self._gates.mkdir()

    def submit(self) -> int:
        config = {
            "name": "gated",
            "entrypoint": "python3 train.py",
            "searcher": {"name": "random", "max_trials": 2, "metric": "loss"},
            "bind_mounts": [{"host_path": str(self._gates), "container_path": "/gates"}],
            "max_restarts": 0,
        }
        return self._cluster.submit(config, MODEL)

    def open(self) -> None:
        """The trials may end."""
        (self._gates / "open").touch()

    def reports(self, experiment: int) -> bool:
        """Whether both trials run and report."""
        trials = self._cluster.trials(experiment)
        return len(trials) == 2 and all(t["totalBatchesProcessed"] > 2 for t in trials)
