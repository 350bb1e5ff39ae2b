"""The documented example of priorities with preemption, for real: one agent of 8 slots, trials that checkpoint.

A command stands in for the notebook: neither is ever preempted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.queue.gated_work import Queue
from tests.real_cluster import RealCluster

SLOTS = 8
MASTER: dict[str, Any] = {
    "resource_manager": {
        "type": "agent",
        "scheduler": {"type": "priority", "preemption": True},
    },
}
ASHA = {
    "name": "adaptive_asha",
    "metric": "loss",
    "max_time": 4,
    "time_metric": "epochs",
    "max_trials": 20,
    "max_concurrent_trials": 20,
}


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with RealCluster(tmp_path / "cluster", MASTER) as cluster:
        cluster.start_agent("rack-1", slots=SLOTS)
        yield Queue(cluster)


@pytest.mark.timeout(300)
def test_the_seven_steps(queue: Queue) -> None:
    # 1. Of the 20 trials of a search, as many run as there are slots.
    search = queue.submit("search", priority=2, slots=1, searcher=ASHA)
    queue.until({"search": 8})
    queue.running(search, 8)

    # 2. Something more important takes exactly the slots it needs.
    queue.submit("urgent", priority=1, slots=4)
    queue.until({"search": 4, "urgent": 4})
    assert queue.preempted(search) == 4

    # 3. Something less important waits for as long as the others can use every slot, and says so.
    queue.command("notebook", priority=3, slots=1)
    queue.until_it_says("notebook", "higher priority")
    assert queue.state("notebook") == "STATE_QUEUED"
    assert queue.jobs()["notebook"]["summary"]["jobsAhead"] == 2
    queue.open_gate("urgent")
    queue.until({"search": 8})
    assert queue.state("notebook") == "STATE_QUEUED"

    # 4. They end: it runs.
    queue.open_gate("search")
    assert queue.cluster.wait(search)["state"] == "STATE_COMPLETED"
    queue.until({"notebook": 1})
    assert all(t["restarts"] == 0 for t in queue.cluster.trials(search))

    # 5. Even the most important work does not push out what cannot be preempted.
    whole = queue.submit("whole", priority=1, slots=8)
    queue.until_it_says("whole", "8 slots")
    assert queue.slots() == {"notebook": 1}

    # 6. What can be preempted uses the slots meanwhile.
    filler = queue.submit("filler", priority=2, slots=4)
    queue.until({"notebook": 1, "filler": 4})
    queue.running(filler, 1)
    assert queue.state("filler") == "STATE_SCHEDULED_BACKFILLED"
    assert queue.state("whole") == "STATE_QUEUED"

    # 7. The obstacle goes: the important work runs, and then the filler goes on where it was.
    queue.open_gate("notebook")
    queue.until({"whole": 8})
    assert queue.preempted(filler) == 1
    queue.open_gate("whole")
    assert queue.cluster.wait(whole)["state"] == "STATE_COMPLETED"
    queue.until({"filler": 4})
    queue.open_gate("filler")
    assert queue.cluster.wait(filler)["state"] == "STATE_COMPLETED"
    (trial,) = queue.cluster.trials(filler)
    assert trial["restarts"] == 0
    assert "run after 1 before" in queue.cluster.logs_of(trial["id"]), (
        "it resumed from its checkpoint"
    )
