"""Preemption from end to end: asked to leave, checkpoint, exit or be killed, and back at its place in the queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.queue.gated_work import Queue
from tests.real_cluster import RealCluster, eventually

SCHEDULER = {"type": "priority", "preemption": True}
MASTER: dict[str, Any] = {
    "resource_manager": {"type": "agent", "scheduler": SCHEDULER},
    "resource_pools": [{"pool_name": "default"}, {"pool_name": "annex", "scheduler": SCHEDULER}],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("preemption"), MASTER) as cluster:
        cluster.start_agent("rack-1", slots=2)
        yield cluster


@pytest.fixture
def queue(cluster: RealCluster, request: pytest.FixtureRequest) -> Iterator[Queue]:
    queue = Queue(cluster, f"gates-{request.node.name}")
    yield queue
    queue.end()


def test_who_does_not_leave_in_time_is_killed_and_comes_back_uncounted(queue: Queue) -> None:
    gate = {"gate": queue.gate_inside("stubborn"), "stubborn": True}
    stubborn = queue.submit(
        "stubborn", priority=50, slots=2, hyperparameters=gate, preemption_timeout=1
    )
    queue.until({"stubborn": 2})
    queue.running(stubborn, 1)
    (trial,) = queue.cluster.trials(stubborn)
    eventually("it has a checkpoint", lambda: queue.cluster.trials(stubborn)[0]["checkpointCount"])

    urgent = queue.submit("urgent", priority=1, slots=2)
    queue.until({"urgent": 2})
    first = queue.runs(stubborn)[0]["document"]
    assert first["preempt_reason"], "it was asked first"
    assert not first["acknowledged"]
    assert first["kill_reason"], "and then killed"
    assert queue.state("stubborn") == "STATE_QUEUED"

    queue.open_gate("urgent")
    assert queue.cluster.wait(urgent)["state"] == "STATE_COMPLETED"
    queue.until({"stubborn": 2})
    queue.open_gate("stubborn")
    assert queue.cluster.wait(stubborn)["state"] == "STATE_COMPLETED"
    (trial,) = queue.cluster.trials(stubborn)
    assert trial["restarts"] == 0, "max_restarts is 0 too: it would have failed"
    assert "run after 1 before" in queue.cluster.logs_of(trial["id"])


def test_who_was_preempted_keeps_its_place_in_the_queue(queue: Queue) -> None:
    first = queue.submit("first", priority=50, slots=2)
    queue.until({"first": 2})
    queue.running(first, 1)
    later = queue.submit("later", priority=50, slots=2)
    urgent = queue.submit("urgent", priority=1, slots=2)
    queue.until({"urgent": 2})
    assert list(queue.jobs()) == ["urgent", "first", "later"]
    for name, experiment in (("urgent", urgent), ("first", first), ("later", later)):
        queue.until({name: 2})
        queue.open_gate(name)
        assert queue.cluster.wait(experiment)["state"] == "STATE_COMPLETED"


def test_more_important_from_now_on(queue: Queue) -> None:
    running = queue.submit("running", priority=50, slots=2)
    queue.until({"running": 2})
    queue.running(running, 1)
    patient = queue.submit("patient", priority=50, slots=2)
    eventually("it is queued", lambda: "patient" in queue.jobs())
    queue.cluster.client.set_resources(patient, {"priority": 10})
    queue.until({"patient": 2})
    assert queue.preempted(running) == 1
    assert queue.jobs()["patient"]["priority"] == 10


def test_a_running_experiment_moves_to_another_pool_and_keeps_its_settings(queue: Queue) -> None:
    queue.cluster.start_agent("annex-1", pool="annex", slots=2)
    resources = {"slots_per_trial": 2, "priority": 7, "weight": 3.0, "max_slots": 4}
    mover = queue.submit("mover", priority=7, slots=2, resources=resources)
    queue.until({"mover": 2})
    queue.running(mover, 1)
    job_id = queue.jobs()["mover"]["jobId"]
    queue.cluster.client.update_jobs([{"jobId": job_id, "resourcePool": "annex"}])

    path = "/api/v1/job-queues-v2?resourcePool=annex"

    def moved() -> Any:
        found = [one["full"] for one in queue.cluster.get(path)["jobs"]]
        return next((job for job in found if job["allocatedSlots"] == 2), None)

    job = eventually("it runs in the other pool", moved)
    assert (job["priority"], job["weight"]) == (7, 3.0)
    assert queue.jobs() == {}
    config = queue.cluster.client.experiment(mover)["config"]
    assert config["resources"]["max_slots"] == 4
    assert config["resources"]["resource_pool"] == "annex"
    queue.open_gate("mover")
    assert queue.cluster.wait(mover)["state"] == "STATE_COMPLETED"
    (trial,) = queue.cluster.trials(mover)
    assert trial["restarts"] == 0
    assert "run after 1 before" in queue.cluster.logs_of(trial["id"])


def test_commands_are_never_preempted(queue: Queue) -> None:
    queue.command("tool", priority=99, slots=1)
    queue.until({"tool": 1})
    urgent = queue.submit("urgent", priority=1, slots=2)
    queue.until_it_says("urgent", "2 slots")
    small = queue.submit("small", priority=1, slots=1)
    queue.until({"tool": 1, "small": 1})
    queue.open_gate("tool")
    queue.open_gate("small")
    queue.open_gate("urgent")
    for experiment in (small, urgent):
        assert queue.cluster.wait(experiment)["state"] == "STATE_COMPLETED"
