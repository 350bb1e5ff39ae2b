"""kill -9 at seeded random moments of a real search: of the master, of agents, of whole instances.

Every experiment must end as if nothing had happened. A seed decides searcher, moments and victims.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from master.core.expconf import ClusterDefaults, complete, parse
from master.core.searcher.event_json import action_to_json, event_from_json
from master.core.searcher.search import Search, replay
from master.core.searcher.types import Create, InitialTrials, TrialCreated, TrialExited
from tests.fakes.held_receiver import HeldReceiver, held_receiver
from tests.real_cluster import RealCluster, embedded_pool, eventually
from tests.stores import read_rows

MODEL = Path(__file__).parent / "model"
IN_EVERY_RUN = 1
SEEDS = [
    pytest.param(seed, marks=() if seed < IN_EVERY_RUN else pytest.mark.slow) for seed in range(20)
]
FAULTS = ("master", "agent", "host")
SEARCHERS: dict[str, dict[str, Any]] = {
    "random": {"name": "random", "max_trials": 6, "max_concurrent_trials": 4},
    "asha": {
        "name": "async_halving",
        "num_rungs": 3,
        "divisor": 2,
        "max_trials": 8,
        "max_concurrent_trials": 4,
        "max_time": 8,
        "time_metric": "epochs",
    },
}


def config(searcher: str) -> dict[str, Any]:
    return {
        "name": f"crash {searcher}",
        "entrypoint": "python3 train.py",
        "searcher": {**SEARCHERS[searcher], "metric": "loss"},
        "hyperparameters": {"x": {"type": "double", "minval": 0.1, "maxval": 3.0}},
        "resources": {"resource_pool": "compute"},
        "reproducibility": {"experiment_seed": 11},
        "max_restarts": 0,
    }


def quiet_trials(searcher: str) -> list[tuple[str, dict[str, Any]]]:
    """The ordered (request id, hyperparameters) that this search creates, from the pure searcher alone."""
    document = search_config(searcher)
    search = Search.from_config(document["searcher"], document["hyperparameters"], 11)
    quota = SEARCHERS[searcher]["max_trials"]
    state, created = search.start(), []
    pending: list[Any] = [InitialTrials()]
    while pending and len(created) < quota:
        state, actions = search.on(state, pending.pop(0))
        for action in actions:
            if isinstance(action, Create):
                created.append((action.request_id, dict(action.hparams)))
                pending += [TrialCreated(action.request_id), TrialExited(action.request_id)]
    return created


def search_config(searcher: str) -> dict[str, Any]:
    storage = ClusterDefaults(checkpoint_storage={"type": "shared_fs", "host_path": "/x"})
    raw = parse(yaml.safe_dump(config(searcher)))
    return complete(raw, defaults=storage, seed=11, name="x").to_json()


def final_loss(x: float) -> float:
    spec = importlib.util.spec_from_file_location("crash_train", MODEL / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    value = 1.0
    for epoch in range(1, module.EPOCHS + 1):
        value = module.loss(x, value, epoch)
    return float(value)


class Killer:
    """Kills at the seed's moments, in a thread of its own, until told to stop."""

    def __init__(self, cluster: RealCluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.done: list[str] = []
        self.error: BaseException | None = None

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            for fault in [*FAULTS, *self._random.choices(FAULTS, k=self._random.randint(0, 2))]:
                if self._stop.wait(self._random.uniform(0.2, 2.5)):
                    return
                self._strike(fault)
        except BaseException as error:  # noqa: BLE001  (raised again by the test's own thread)
            self.error = error

    def _strike(self, fault: str) -> None:
        if fault == "master":
            self._cluster.kill_master()
            self._stop.wait(self._random.uniform(0.0, 1.0))
            self._cluster.start_master()
            self.done.append("master")
            return
        hosts = self._cluster.hosts()
        if not hosts:
            return
        name = self._random.choice(sorted(hosts))
        with suppress(psutil.NoSuchProcess):
            if fault == "host":
                hosts[name].kill()
                self.done.append(f"host {name}")
                return
            for child in hosts[name].children():
                if "agent_bootstrap.agent" in " ".join(child.cmdline()):
                    child.kill()
                    self.done.append(f"agent on {name}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    settings = {
        "resource_pools": [embedded_pool()],
        "webhooks": {"allowed_targets": ["127.0.0.1"]},
    }
    with RealCluster(tmp_path, settings) as cluster:
        yield cluster


@pytest.fixture
def receiver() -> Iterator[HeldReceiver]:
    with held_receiver() as made:
        yield made


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_search_ends_as_if_nothing_had_happened(
    cluster: RealCluster, receiver: HeldReceiver, seed: int
) -> None:
    searcher = ("random", "asha")[seed % 2]
    with cluster.session() as admin:
        admin.login("admin", cluster.password)
        admin.post("/api/v1/webhooks", webhook(receiver.url))
    experiment = cluster.submit(config(searcher), MODEL)
    with Killer(cluster, seed) as killer:
        ended = cluster.wait(experiment, patience_s=150)
    assert killer.done, "nothing was killed: the search was over too soon"
    try:
        check(cluster, experiment, searcher, ended)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, after killing {killer.done}: {error}") from error
    check_webhook(cluster, receiver, experiment)


def webhook(url: str) -> dict[str, Any]:
    ended = {
        "triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE",
        "condition": {"state": "COMPLETED"},
    }
    kind = {"webhookType": "WEBHOOK_TYPE_DEFAULT", "mode": "WEBHOOK_MODE_WORKSPACE"}
    return {"name": "hook", "url": url, **kind, "triggers": [ended]}


def check_webhook(cluster: RealCluster, receiver: HeldReceiver, experiment: int) -> None:
    """Killed once more, while the receiver has the call and has not answered: the next master calls once."""
    assert receiver.called.wait(60)
    cluster.kill_master()
    before = len(receiver.received)
    receiver.may_answer.set()
    cluster.start_master()

    def delivered() -> bool:
        rows = read_rows(cluster.data_dir / "windlass.db", "webhook_event", "id")
        return [row["delivered_at"] is not None for row in rows] == [True]

    eventually("it is noted as delivered", delivered)
    assert len(receiver.received) == before + 1
    assert len({call["event_id"] for call in receiver.received}) == 1
    assert receiver.received[0]["event_data"]["experiment"]["id"] == experiment


def check(cluster: RealCluster, experiment: int, searcher: str, ended: dict[str, Any]) -> None:
    assert ended["state"] == "STATE_COMPLETED"
    rows = read_rows(cluster.data_dir / "windlass.db", "trial", "id")
    assert [(r["request_id"], r["hparams"]) for r in rows] == quiet_trials(searcher)
    assert {r["state"] for r in rows} == {"COMPLETED"}
    assert {r["restarts"] for r in rows} == {0}, "our failures are not the user's"
    if searcher == "random":
        for row in rows:
            assert row["steps_completed"] == 8
            assert row["latest_searcher_metric"] == pytest.approx(final_loss(row["hparams"]["x"]))
    check_replay(cluster, experiment, searcher)
    check_single_writer(cluster)
    check_nothing_left(cluster)


def check_replay(cluster: RealCluster, experiment: int, searcher: str) -> None:
    """The stored events alone reproduce the stored actions."""
    document = search_config(searcher)
    search = Search.from_config(document["searcher"], document["hyperparameters"], 11)
    log = read_rows(cluster.data_dir / "windlass.db", "searcherevent", "seq")
    assert [r["seq"] for r in log] == list(range(1, len(log) + 1))
    _, actions = replay(search, [event_from_json(r["event"]) for r in log])
    assert [[action_to_json(a) for a in batch] for batch in actions] == [r["actions"] for r in log]


def check_single_writer(cluster: RealCluster) -> None:
    """No accepted report of a run comes after a report of a later run of the same trial."""
    newest: dict[int, int] = {}
    for row in read_rows(cluster.data_dir / "windlass.db", "metric", "id"):
        assert row["run_id"] >= newest.get(row["trial_id"], 0), "a dead run wrote"
        newest[row["trial_id"]] = row["run_id"]
    live = [
        r for r in read_rows(cluster.data_dir / "windlass.db", "metric", "id") if not r["archived"]
    ]
    steps = [(r["trial_id"], r["group"], r["steps"]) for r in live]
    assert len(steps) == len(set(steps)), "an epoch counts twice"


def check_nothing_left(cluster: RealCluster) -> None:
    """The pool goes back to zero by itself, and no process of it survives."""
    eventually("the fleet is empty", lambda: not cluster.instances(), patience_s=60)
    eventually("no instance directory is left", lambda: not cluster.hosts(), patience_s=30)
    eventually("no process is left", lambda: not cluster.processes())
