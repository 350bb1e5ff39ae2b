"""Work that falls back, by real processes: a master that is killed, agents of a rack, machines of embedded sites."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from master.core.fall_back import REST_S
from tests.command_line import run_here
from tests.integration.queue.gated_work import Queue
from tests.real_cluster import RealCluster, embedded_pool, eventually
from tests.stores import read_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

Json = dict[str, Any]

SCHEDULER = {"type": "priority", "preemption": True}
SLOTS = 2
OUT_OF_STOCK = json.dumps(
    [{"call": "launch", "kind": "capacity", "message": "InsufficientInstanceCapacity"}]
)
LOOKS = timedelta(seconds=1)
"""The time of a log line is later than the move by less."""


def elastic(name: str, *falls_back_to: str, slots: int = SLOTS) -> Json:
    return embedded_pool(
        pool_name=name,
        max_instances=1,
        slots_per_instance=slots,
        fall_back_to=list(falls_back_to),
        fall_back_after="1s",
    )


POOLS = [
    elastic("home", "rack"),
    elastic("single", "rack", slots=1),
    elastic("outer", "spare"),
    elastic("spare"),
    {"pool_name": "rack"},
]
MASTER: Json = {
    "resource_manager": {
        "type": "agent",
        "scheduler": SCHEDULER,
        "default_compute_resource_pool": "home",
        "default_aux_resource_pool": "home",
    },
    "resource_pools": POOLS,
}


class Pools(Queue):
    """Pools whose sites run out of stock and have some again."""

    def run_out(self, pool: str) -> None:
        """Once its machines are gone: what is up could still take work."""
        eventually(
            f"no machine is left in {pool}",
            lambda: all(machine["pool"] != pool for machine in self.cluster.instances()),
        )
        site = self.cluster.data_dir / "instances" / pool
        site.mkdir(parents=True, exist_ok=True)
        (site / "faults.json").write_text(OUT_OF_STOCK)

    def restock(self, pool: str) -> None:
        """And tell the master, which would find out in some minutes."""
        (self.cluster.data_dir / "instances" / pool / "faults.json").unlink(missing_ok=True)
        with self.cluster.session() as session:
            session.login("admin", self.cluster.password)
            path = "/api/v1/windlass/fleet/offers"
            for offer in session.get(path)["offers"]:
                if offer["pool"] == pool:
                    session.post(f"{path}/retry", {"offer": offer["name"]})

    def ask(self, name: str, pool: str, *, priority: int = 50, **resources: Any) -> int:
        asked = {"slots_per_trial": SLOTS, "priority": priority, "resource_pool": pool}
        return self.submit(name, priority=priority, slots=SLOTS, resources=asked | resources)

    def jobs(self) -> dict[str, Json]:
        """Of all pools."""
        paths = [f"/api/v1/job-queues-v2?resourcePool={pool['pool_name']}" for pool in POOLS]
        found = [one["full"] for path in paths for one in self.cluster.get(path)["jobs"]]
        return {one["name"]: one for one in found}

    def job_in(self, pool: str, name: str) -> Json | None:
        found = self.cluster.get(f"/api/v1/job-queues-v2?resourcePool={pool}")["jobs"]
        return next((one["full"] for one in found if one["full"]["name"] == name), None)

    def holds(self, name: str, pool: str, slots: int = SLOTS) -> Json:
        """Returns the job when it has so many slots in this pool."""

        def look() -> Json | None:
            job = self.job_in(pool, name)
            return job if job is not None and job["allocatedSlots"] == slots else None

        return eventually(f"{name} holds {slots} slots in {pool}", look)

    def waits(self, name: str, pool: str, words: str) -> Json:
        """Returns the job when it waits in this pool, with a reason that has these words."""

        def look() -> Json | None:
            job = self.job_in(pool, name)
            return job if job is not None and words in job["waitingReason"] else None

        return eventually(f"{name} waits in {pool}: {words}", look)

    def move(self, experiment: int, pool: str) -> None:
        job = str(self.cluster.experiment(experiment)["jobId"])
        self.cluster.client.update_jobs([{"jobId": job, "resourcePool": pool}])

    def restart_master(self) -> None:
        self.cluster.kill_master()
        self.cluster.start_master()

    def det(self, *words: str) -> str:
        environ = {"HOME": str(self.cluster.folder), "DET_MASTER": self.cluster.url}
        done = run_here(words, environ | {"COLUMNS": "400"} | self.cluster.login_as())
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("falling-back"), MASTER) as cluster:
        cluster.start_agent("rack-1", pool="rack", slots=SLOTS)
        yield cluster


@pytest.fixture
def pools(cluster: RealCluster, request: pytest.FixtureRequest) -> Iterator[Pools]:
    pools = Pools(cluster, f"gates-{request.node.name}")
    yield pools
    pools.end()
    for pool in ("home", "outer", "spare"):
        pools.restock(pool)


def test_it_outlives_the_master_there_is_preempted_there_and_asks_at_home(pools: Pools) -> None:
    pools.run_out("home")
    experiment = pools.ask("away", "home")
    job = pools.holds("away", "rack")
    pools.running(experiment, 1)
    (before,) = pools.runs(experiment)
    assert (before["pool"], before["granted_pool"]) == ("home", "rack")

    pools.restart_master()
    assert pools.holds("away", "rack")["submissionTime"] == job["submissionTime"]
    pools.running(experiment, 1)
    (after,) = pools.runs(experiment)
    assert after["id"] == before["id"]
    assert after["granted_pool"] == "rack"
    said = pools.det("job", "explain", str(experiment))
    assert "it runs in resource pool 'rack', as it could not start in resource pool 'home'" in said
    assert "InsufficientInstanceCapacity" in said
    assert "away" in pools.det("job", "list", "-p", "rack")

    rival = pools.ask("rival", "rack", priority=1)
    pools.holds("rival", "rack")
    pools.waits("away", "home", "it may start in resource pool 'rack'")
    assert pools.preempted(experiment) == 1
    pools.restock("home")
    pools.holds("away", "home")
    for name in ("away", "rival"):
        pools.open_gate(name)
    for one in (experiment, rival):
        assert pools.cluster.wait(one)["state"] == "STATE_COMPLETED"
    (trial,) = pools.cluster.trials(experiment)
    assert trial["restarts"] == 0
    assert [run["granted_pool"] for run in pools.runs(experiment)] == ["rack", None]
    assert "run after 1 before" in pools.cluster.logs_of(trial["id"])


def test_its_user_moves_it_into_the_pool_where_it_runs_and_then_out_of_it(pools: Pools) -> None:
    pools.run_out("home")
    experiment = pools.ask("moved", "home")
    pools.holds("moved", "rack")
    pools.running(experiment, 1)

    pools.move(experiment, "rack")
    (run,) = pools.runs(experiment)
    assert (run["is_open"], run["pool"], run["granted_pool"]) == (True, "rack", None)
    assert not run["document"]["preempt_reason"]
    assert "as it could not start" not in pools.det("job", "explain", str(experiment))
    pools.restart_master()
    pools.holds("moved", "rack")

    pools.move(experiment, "spare")
    pools.holds("moved", "spare")
    pools.open_gate("moved")
    assert pools.cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    runs = pools.runs(experiment)
    assert [(run["pool"], run["granted_pool"]) for run in runs] == [("rack", None), ("spare", None)]
    assert pools.preempted(experiment) == 1


def test_it_is_moved_home_to_another_pool_while_it_runs_elsewhere(pools: Pools) -> None:
    pools.run_out("home")
    experiment = pools.ask("recalled", "home")
    pools.holds("recalled", "rack")
    pools.running(experiment, 1)
    pools.move(experiment, "outer")
    pools.holds("recalled", "outer")
    assert pools.preempted(experiment) == 1
    pools.open_gate("recalled")
    assert pools.cluster.wait(experiment)["state"] == "STATE_COMPLETED"


def test_a_job_has_no_more_than_its_max_slots_in_all_pools(pools: Pools) -> None:
    experiment = pools.submit(
        "limited",
        priority=50,
        slots=1,
        resources={"slots_per_trial": 1, "max_slots": 2, "resource_pool": "single"},
        searcher={"name": "random", "max_trials": 4, "metric": "loss"},
    )
    pools.holds("limited", "single", 1)
    pools.holds("limited", "rack", 1)
    pools.waits("limited", "single", "max_slots")
    pools.running(experiment, 2)
    pools.restart_master()
    pools.holds("limited", "rack", 1)
    pools.waits("limited", "single", "max_slots")
    pools.open_gate("limited")
    assert pools.cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    runs = pools.runs(experiment)
    assert len(runs) == 4, "each trial ran once"
    assert most_at_once([(run["started_at"], run["ended_at"]) for run in runs]) == 2


def test_a_command_falls_back_and_outlives_the_master_there(pools: Pools) -> None:
    pools.run_out("home")
    pools.command("tool", priority=50, slots=SLOTS)
    pools.holds("tool", "rack")
    eventually("it runs", lambda: "RUNNING" in pools.det("command", "list"))
    pools.restart_master()
    pools.holds("tool", "rack")
    assert "tool" in pools.det("job", "list", "-p", "rack")
    eventually("it runs still", lambda: "RUNNING" in pools.det("command", "list"))
    pools.open_gate("tool")
    eventually("it ends", lambda: pools.job_in("rack", "tool") is None)
    rows = read_rows(pools.cluster.data_dir / "windlass.db", "allocation", "requested_at")
    (run,) = [row for row in rows if row["id"].startswith(rows[-1]["task_id"])]
    assert (run["pool"], run["granted_pool"], run["status_code"]) == ("home", "rack", 0)


def test_what_has_moved_stays_for_two_minutes_and_waits_at_home_after_a_kill(pools: Pools) -> None:
    for pool in ("outer", "spare"):
        pools.run_out(pool)
    experiment = pools.ask("waiting", "outer")
    there = pools.waits("waiting", "spare", "as it could not start in 'outer'")

    pools.restock("outer")
    probe = pools.ask("probe", "outer")
    pools.holds("probe", "outer")
    pools.open_gate("probe")
    assert pools.cluster.wait(probe)["state"] == "STATE_COMPLETED", "its own pool could start it"
    still = pools.job_in("spare", "waiting")
    assert still is not None, "it has not moved back"
    assert still["submissionTime"] == there["submissionTime"]

    pools.restart_master()
    pools.holds("waiting", "outer")
    pools.open_gate("waiting")
    assert pools.cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (run,) = pools.runs(experiment)
    assert (run["pool"], run["granted_pool"]) == ("outer", None)
    check_moves(pools.cluster.events())


def most_at_once(times: Sequence[tuple[datetime, datetime]]) -> int:
    """How many of the times overlap at most."""
    changes = sorted([(end, -1) for _, end in times] + [(begin, 1) for begin, _ in times])
    held = [sum(change for _, change in changes[: n + 1]) for n in range(len(changes))]
    return max(held)


def check_moves(events: Sequence[Json]) -> None:
    """No request moves twice in two minutes within one life of the master."""
    last: dict[str, datetime] = {}
    moves = 0
    for event in events:
        words = str(event["event"]).split()
        if event["event"] == "master is ready":
            last.clear()
        elif words[:1] == ["request"] and "moved" in words:
            at, id_ = datetime.fromisoformat(event["timestamp"]), words[1]
            moves += 1
            assert id_ not in last or at - last[id_] > timedelta(seconds=REST_S) - LOOKS
            last[id_] = at
    assert moves
