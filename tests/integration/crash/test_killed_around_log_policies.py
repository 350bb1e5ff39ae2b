"""kill -9 of the master around what a log policy does: it is done once, and not lost, whenever the master dies.

Before it hears of the line; when what follows is committed, but the line is not stored; and when both are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gated_trial import MODEL, all_logs, gated_trial
from tests.real_cluster import RealCluster, eventually

pytestmark = pytest.mark.timeout(300)

LINE = "NVRM: Xid 79"
NODES = ("node-1", "node-2")
SCRIPT = f"""[ "$DET_TRIAL_RUN_ID" = 1 ] || exit 0
echo it waits
while [ ! -e /gates/say ]; do sleep 0.05; done
echo "{LINE}"
while [ ! -e /gates/fail ]; do sleep 0.05; done
exit 1"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("policies")
    settings = {"resource_pools": [{"pool_name": "default"}], "allowed_host_paths": [str(folder)]}
    with RealCluster(folder / "cluster", settings) as cluster:
        for name in NODES:
            cluster.start_agent(name, slots=1)
        yield cluster


@pytest.fixture
def cluster(shared: RealCluster) -> Iterator[RealCluster]:
    yield shared
    shared.recover()


class Failing:
    """A trial whose first run says a line that a policy looks for, and fails."""

    def __init__(self, cluster: RealCluster, gates: Path, action: str) -> None:
        gates.mkdir()
        self._cluster = cluster
        self._gates = gates
        policy = {"name": "bad GPU", "pattern": "Xid [0-9]+", "action": action}
        settings: dict[str, Any] = {
            "entrypoint": ["sh", "-c", SCRIPT],
            "max_restarts": 1,
            "log_policies": [policy],
        }
        config = gated_trial(gates, slots=1, pool="default", **settings)
        self.experiment = cluster.submit(config, MODEL)
        eventually("it runs", lambda: "it waits" in all_logs(cluster, self.experiment))
        (trial,) = cluster.trials(self.experiment)
        self.id = int(trial["id"])

    def shown(self) -> dict[str, Any]:
        return dict(self._cluster.get(f"/api/v1/trials/{self.id}")["trial"])

    def logs(self) -> str:
        return self._cluster.logs_of(self.id)

    def say(self) -> None:
        (self._gates / "say").touch()

    def until_it_matched(self) -> None:
        eventually("it matched", lambda: self.shown()["logPolicyMatched"] == "bad GPU")

    def fail_unseen(self) -> None:
        """While its master is away."""
        before = self._verdicts()
        (self._gates / "say").touch()
        (self._gates / "fail").touch()
        eventually("its end is written", lambda: self._verdicts() > before)

    def _verdicts(self) -> int:
        found = (self._cluster.folder / node for node in NODES)
        return sum(len(list(node.glob("containers/*/verdict.json"))) for node in found)


def killed_before_the_line(cluster: RealCluster, trial: Failing) -> None:
    cluster.kill_master()


def killed_when_it_is_committed_and_the_line_is_not(cluster: RealCluster, trial: Failing) -> None:
    with logs_cannot_be_written(cluster):
        trial.say()
        trial.until_it_matched()
        cluster.kill_master()


def killed_when_the_line_is_stored(cluster: RealCluster, trial: Failing) -> None:
    trial.say()
    trial.until_it_matched()
    eventually("it is stored", lambda: trial.logs().count(LINE) == 2)  # it, and what follows of it
    cluster.kill_master()


@contextmanager
def logs_cannot_be_written(cluster: RealCluster) -> Iterator[None]:
    """Their database is another than that of states."""
    with closing(sqlite3.connect(cluster.data_dir / "logs.db", timeout=30)) as logs:
        logs.isolation_level = None
        logs.execute("BEGIN IMMEDIATE")
        yield
        logs.execute("ROLLBACK")


MOMENTS: dict[str, Callable[[RealCluster, Failing], None]] = {
    "before": killed_before_the_line,
    "between": killed_when_it_is_committed_and_the_line_is_not,
    "after": killed_when_the_line_is_stored,
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("action", ["exclude_node", "cancel_retries"])
def test_what_a_log_policy_does_is_done_once(
    cluster: RealCluster, tmp_path: Path, action: str, moment: str
) -> None:
    gates = cluster.folder / f"gates-{action}-{moment}"
    trial = Failing(cluster, gates, action)
    MOMENTS[moment](cluster, trial)
    trial.fail_unseen()
    cluster.start_master()
    ended, shown, logs = cluster.wait(trial.experiment), trial.shown(), trial.logs()
    assert shown["logPolicyMatched"] == "bad GPU"
    assert logs.count(f'(log "{LINE}" matched regex Xid [0-9]+) therefore') == 1, logs
    assert logs.count("it waits") == 1
    assert logs.count(f"|| {LINE}\n") == 1, logs
    if action == "exclude_node":
        assert ended["state"] == "STATE_COMPLETED", logs
        assert shown["restarts"] == 1
        (node,) = shown["avoids"]
        assert node in NODES
        assert f"will not schedule on {node}" in logs
    else:
        assert (ended["state"], shown["restarts"], shown["avoids"]) == ("STATE_ERROR", 0, [])
        assert "will not be run again after a failure" in logs
