"""What tests of the queue do to a real cluster, and what they see of it: trials and commands that wait at gates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.real_cluster import RealCluster, eventually
from tests.stores import read_rows
from windlass.sdk.interactive import COMMAND

MODEL = Path(__file__).parent / "model"
INSIDE = "/gates"
"""Where tasks find the folder of gates: their /tmp is their own."""
SINGLE = {"name": "single", "metric": "loss"}


class Queue:
    """What the test does to the cluster, and what it sees of it."""

    def __init__(self, cluster: RealCluster, gates: str = "gates") -> None:
        """`gates`: of this test, where several share the cluster."""
        self.cluster = cluster
        self._gates = cluster.folder / gates
        self._gates.mkdir()
        self._mount = {"host_path": str(self._gates), "container_path": INSIDE}

    def submit(self, name: str, *, priority: int, slots: int, **changes: Any) -> int:
        return self.cluster.submit(
            {
                "name": name,
                "entrypoint": "python3 train.py",
                "searcher": SINGLE,
                "hyperparameters": {"gate": self.gate_inside(name)},
                "bind_mounts": [self._mount],
                "resources": {"slots_per_trial": slots, "priority": priority},
                "max_restarts": 0,
                **changes,
            },
            MODEL,
        )

    def command(self, name: str, *, priority: int, slots: int) -> str:
        wait = f"until [ -e '{self.gate_inside(name)}' ]; do sleep 0.05; done"
        resources = {"slots": slots, "priority": priority}
        config = {"entrypoint": [wait], "description": name, "resources": resources}
        launched = self.cluster.client.interactive(COMMAND).launch(
            {**config, "bind_mounts": [self._mount]}
        )
        return str(launched["command"]["id"])

    def gate_inside(self, name: str) -> str:
        """What runs under this name goes on until this file is there."""
        return f"{INSIDE}/{name}"

    def open_gate(self, name: str) -> None:
        (self._gates / name).touch()

    def jobs(self) -> dict[str, dict[str, Any]]:
        """By name, those that are not over."""
        found = self.cluster.get("/api/v1/job-queues-v2")["jobs"]
        return {one["full"]["name"]: one["full"] for one in found}

    def slots(self) -> dict[str, int]:
        """How many slots each job holds; jobs without any are left out."""
        return {n: j["allocatedSlots"] for n, j in self.jobs().items() if j["allocatedSlots"]}

    def state(self, name: str) -> str:
        return str(self.jobs()[name]["summary"]["state"])

    def end(self) -> None:
        """Returns when nothing runs or waits."""
        client = self.cluster.client
        for experiment in client.experiments(archived=None):
            client.session.post(f"/api/v1/experiments/{experiment['id']}/kill", {})
        for name in self.jobs():
            self.open_gate(name)
        eventually("nothing is queued", lambda: not self.jobs())

    def until(self, expected: dict[str, int]) -> None:
        """Returns when the slots are held like this, by work that has really started."""
        seen: list[dict[str, int]] = []

        def look() -> bool:
            seen.append(self.slots())
            return seen[-1] == expected

        try:
            eventually(f"slots are held as {expected}", look)
        except AssertionError as error:
            raise AssertionError(f"{error}; they are held as {seen[-1]}: {self.jobs()}") from error

    def until_it_says(self, name: str, words: str) -> None:
        """Returns when a waiting job tells a reason with these words."""
        said: list[str] = []

        def look() -> bool:
            said.append(self.jobs()[name]["waitingReason"])
            return words in said[-1]

        try:
            eventually(f"{name} says: {words}", look)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says: {said[-1]}") from error

    def runs(self, experiment_id: int) -> list[dict[str, Any]]:
        """Every run of an experiment's trials, as the store has it."""
        rows = read_rows(self.cluster.data_dir / "windlass.db", "allocation", "requested_at")
        return [row for row in rows if row["id"].startswith(f"{experiment_id}.")]

    def preempted(self, experiment_id: int) -> int:
        """How many runs were asked to give their slots back, and have done so after a checkpoint."""
        return sum(
            run["document"]["acknowledged"] and run["document"]["outcome"]["kind"] == "preempted"
            for run in self.runs(experiment_id)
            if not run["is_open"]
        )

    def running(self, experiment_id: int, count: int) -> None:
        """Returns when so many trials really train (their harness has answered)."""
        eventually(
            f"{count} trials of experiment {experiment_id} run",
            lambda: (
                sum(r["is_open"] and r["document"]["ready"] for r in self.runs(experiment_id))
                == count
            ),
        )
