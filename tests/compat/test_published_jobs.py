"""The published client, unmodified, and the job queue of a real master: look, reorder, change pools, set resources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_published_client import COMPAT, MODEL, det, start

from tests.real_cluster import RealCluster, eventually

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)

POOLS = [
    {"pool_name": "default", "scheduler": {"type": "priority"}},
    {"pool_name": "shared", "scheduler": {"type": "fair_share"}},
    {"pool_name": "empty", "fall_back_to": ["shared"]},
]


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """One slot in a pool with priorities, one in a pool with shares, none in a pool that falls back to that."""
    with RealCluster(tmp_path_factory.mktemp("jobs"), {"resource_pools": POOLS}) as cluster:
        cluster.start_agent("node", slots=1)
        cluster.start_agent("other", pool="shared", slots=1)
        det(cluster, "user", "whoami")  # the first command logs in and says so
        yield cluster


@pytest.fixture
def cluster(shared_cluster: RealCluster) -> Iterator[RealCluster]:
    """Without a job, before and after."""
    yield shared_cluster
    pools = [str(pool["pool_name"]) for pool in POOLS]
    client = shared_cluster.client
    for job in [job for pool in pools for job in client.jobs(pool=pool)]:
        client.act(int(job["entityId"]), "kill")
    eventually("no job is left", lambda: not any(client.jobs(pool=pool) for pool in pools))
    for gate in gates(shared_cluster).iterdir():
        gate.unlink()


def submit(cluster: RealCluster, name: str, pool: str = "default") -> str:
    """An experiment that runs until its gate is open; its job."""
    experiment_id = cluster.submit(
        {
            "name": name,
            "entrypoint": ["sh", "-c", f"until [ -e gates/{name} ]; do sleep 0.05; done"],
            "bind_mounts": [{"host_path": str(gates(cluster)), "container_path": "gates"}],
            "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
            "resources": {"slots_per_trial": 1, "resource_pool": pool},
            "max_restarts": 0,
        },
        MODEL,
    )
    return str(cluster.experiment(experiment_id)["jobId"])


def number(cluster: RealCluster, name: str) -> int:
    """Of the newest experiment with this name."""
    found = cluster.client.experiments(archived=None)
    return max(int(one["id"]) for one in found if one["name"] == name)


def gates(cluster: RealCluster) -> Path:
    """Tasks see nothing else of this machine's /tmp."""
    folder = cluster.folder / "gates"
    folder.mkdir(exist_ok=True)
    return folder


def open_gate(cluster: RealCluster, name: str) -> None:
    (gates(cluster) / name).touch()


def order(cluster: RealCluster, *options: str) -> list[str]:
    jobs = json.loads(det(cluster, "job", "list", "--json", *options))["jobs"]
    return [job["name"] for job in jobs]


def job(cluster: RealCluster, name: str) -> dict[str, Any]:
    """As our own client sees it."""
    found = [*cluster.client.jobs(), *cluster.client.jobs(pool="shared")]
    return next(one for one in found if one["name"] == name)


def resources(cluster: RealCluster, experiment_id: int) -> dict[str, Any]:
    return dict(cluster.experiment(experiment_id)["config"]["resources"])


def failure(cluster: RealCluster, *arguments: str) -> str:
    process = start(cluster, *arguments)
    said, _ = process.communicate(timeout=90)
    assert process.returncode != 0, said
    assert "Traceback" not in said
    return str(said)


def test_the_queue_is_listed_and_changed(cluster: RealCluster) -> None:
    first, second, third = (submit(cluster, name) for name in ("first", "second", "third"))
    eventually("the first runs", lambda: job(cluster, "first")["allocatedSlots"] == 1)
    assert order(cluster) == ["first", "second", "third"]
    listing = det(cluster, "job", "ls")
    assert "Priority" in listing
    named = rf"third \({number(cluster, 'third')}\)"
    row = rf" 2 \| {third} \| TYPE_EXPERIMENT \| {named} +\| +42 \|.*\| 0/1 +\| STATE_QUEUED"
    assert re.search(row, listing), listing
    assert re.search(rf" 0 \| {first} .*\| 1/1 +\| STATE_SCHEDULED", listing), listing

    det(cluster, "job", "update", third, "--priority", "10")
    assert order(cluster) == ["third", "first", "second"]
    assert order(cluster, "--reverse") == ["second", "first", "third"]
    assert order(cluster, "--limit", "1") == ["third", "first", "second"], "page by page"
    det(cluster, "job", "update-batch", f"{second}.priority=5", f"{third}.weight=3")
    assert order(cluster) == ["second", "third", "first"]
    assert job(cluster, "third")["weight"] == 3
    det(cluster, "job", "u", second, "-w", "0.5")
    assert resources(cluster, number(cluster, "second"))["weight"] == 0.5

    assert "job 'nobody' not found" in failure(cluster, "job", "update", "nobody", "-p", "1")
    assert "priority must be 1" in failure(cluster, "job", "update", first, "-p", "100")
    assert "exactly one" in failure(cluster, "job", "update", first)

    open_gate(cluster, "first")
    eventually("the most important follows", lambda: job(cluster, "second")["allocatedSlots"] == 1)
    assert order(cluster) == ["second", "third"]


def test_a_job_goes_on_in_another_pool(cluster: RealCluster) -> None:
    submit(cluster, "first")
    second = submit(cluster, "second")
    eventually("the first runs", lambda: job(cluster, "first")["allocatedSlots"] == 1)
    assert "nowhere" in failure(cluster, "job", "update", second, "--resource-pool", "nowhere")
    det(cluster, "job", "update-batch", f"{second}.resource-pool=shared")
    eventually("it runs there", lambda: job(cluster, "second")["allocatedSlots"] == 1)
    assert order(cluster) == ["first"]
    assert order(cluster, "-p", "shared") == ["second"]
    listing = det(cluster, "job", "ls", "-p", "shared")
    assert "Weight" in listing
    assert re.search(rf" N/A \| {second} ", listing), listing
    open_gate(cluster, "second")
    assert cluster.wait(number(cluster, "second"))["resourcePool"] == "shared"
    assert order(cluster, "-p", "shared") == []


def test_the_resources_of_an_experiment_are_set(cluster: RealCluster) -> None:
    submit(cluster, "first")
    id_ = number(cluster, "first")
    e = str(id_)
    assert f"Set `priority` of experiment {e} to 7" in det(cluster, "e", "set", "priority", e, "7")
    assert f"Set `weight` of experiment {e} to 2.5" in det(cluster, "e", "set", "weight", e, "2.5")
    det(cluster, "e", "set", "max-slots", e, "3")
    found = resources(cluster, id_)
    assert (found["priority"], found["weight"], found["max_slots"]) == (7, 2.5, 3)
    det(cluster, "e", "set", "max-slots", e, "none")
    assert resources(cluster, id_)["max_slots"] is None
    assert (job(cluster, "first")["priority"], job(cluster, "first")["weight"]) == (7, 2.5)
    assert "weight must be" in failure(cluster, "e", "set", "weight", e, "0")
    det(cluster, "e", "kill", e)
    cluster.wait(id_)
    assert f"Experiment {e} has already" in failure(cluster, "e", "set", "priority", e, "8")
    assert resources(cluster, id_)["priority"] == 7


def test_the_order_survives_the_masters_death(cluster: RealCluster) -> None:
    ids = {name: submit(cluster, name) for name in ("first", "second", "third")}
    eventually("the first runs", lambda: job(cluster, "first")["allocatedSlots"] == 1)
    cluster.client.update_jobs([{"jobId": ids["third"], "behindOf": ids["first"]}])
    det(cluster, "job", "update", ids["first"], "-p", "50")
    det(cluster, "job", "update", ids["second"], "-w", "2.5")
    expected = ["third", "second", "first"]
    assert order(cluster) == expected
    cluster.kill_master()
    cluster.start_master()
    assert order(cluster) == expected
    assert job(cluster, "second")["weight"] == 2.5
    eventually("the agent is back", lambda: job(cluster, "first")["allocatedSlots"] == 1)


@pytest.mark.slow
def test_work_runs_on_in_the_pool_that_its_own_falls_back_to(cluster: RealCluster) -> None:
    """Over a death of the master; and its user makes that pool its own."""
    job_id = submit(cluster, "away", pool="empty")
    id_ = number(cluster, "away")
    eventually("it is there", lambda: cluster.client.jobs(pool="shared"))
    eventually("it runs there", lambda: job(cluster, "away")["allocatedSlots"] == 1)
    assert order(cluster, "-p", "shared") == ["away"]
    assert order(cluster, "-p", "empty") == []
    assert "empty" in det(cluster, "e", "describe", str(id_)), "the pool that it was submitted to"
    explained = cluster.client.explain_job(job_id)
    [run] = explained["holding"]
    assert run["resourcePool"] == "shared"
    assert run["fellBack"].startswith("it could not start in resource pool 'empty' (no agents")

    cluster.kill_master()
    cluster.start_master()
    eventually("it is there again", lambda: cluster.client.jobs(pool="shared"))
    eventually("it holds its slot", lambda: job(cluster, "away")["allocatedSlots"] == 1)
    det(cluster, "job", "update", job_id, "--resource-pool", "shared")
    assert cluster.client.explain_job(job_id)["holding"][0]["fellBack"] is None
    open_gate(cluster, "away")
    assert cluster.wait(id_)["resourcePool"] == "shared"
    [trial] = cluster.trials(id_)
    said = cluster.logs_of(trial["id"])
    assert "in resource pool shared, not in empty: no agents in service" in said
    assert said.count("was assigned to") == 1, "one run, from beginning to end"
