"""The order in which jobs queue."""

from __future__ import annotations

from decimal import Decimal

import pytest

from master.core.scheduler.queue_order import in_queue_order, queue_key
from master.core.scheduler.types import Job, SchedulerSettings, SchedulerType
from tests.unit.core.scheduler.small_pool import pool, requests

JOBS = [
    Job(id="moved-up", submitted=9.0, position=Decimal("1.5")),
    Job(id="old", submitted=1.0),
    Job(id="young", submitted=2.0),
    Job(id="urgent", submitted=8.0, priority=1),
    Job(id="patient", submitted=0.0, priority=99, position=Decimal("-1")),
    Job(id="young-too", submitted=2.0),
]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "priority",
            ["urgent", "old", "moved-up", "young", "young-too", "patient"],
        ),
        (
            "fair_share",
            ["patient", "old", "young", "young-too", "urgent", "moved-up"],
        ),
        (
            "round_robin",
            ["patient", "old", "young", "young-too", "urgent", "moved-up"],
        ),
    ],
)
def test_the_order_of_jobs(policy: SchedulerType, expected: list[str]) -> None:
    settings = SchedulerSettings(type=policy)
    assert [one.id for one in sorted(JOBS, key=lambda j: queue_key(j, settings))] == expected


def test_a_position_between_two_jobs_is_between_them() -> None:
    settings = SchedulerSettings(type="priority")
    old, young = JOBS[1], JOBS[2]
    moved = Job(id="moved", submitted=5.0, position=Decimal("1.0000000000000000000001"))
    assert queue_key(old, settings) < queue_key(moved, settings) < queue_key(young, settings)


def test_requests_follow_their_jobs() -> None:
    wanted = requests("old", 2) + requests("ghost", 1, requested=1.5) + requests("urgent", 1)
    state = pool(JOBS, wanted, settings=SchedulerSettings(type="priority"))
    ordered = [one.id for one in in_queue_order(state, reversed(wanted))]
    assert ordered == ["urgent.0", "old.0", "old.1", "ghost.0"]
