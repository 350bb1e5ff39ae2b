"""What a machine did when: one line of time without gaps, beside which its costs add up."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.fleet.instances import InstanceRecord, InstanceState
from provisioner.money.lifetimes import CostKind, Lifetime, Use, charges
from provisioner.money.spans import SpanKind, spans
from tests.fakes.fleet_world import an_offer

K = SpanKind
S = InstanceState


def machine(**more: Any) -> InstanceRecord:
    values = {"state": S.READY, "created_at": 0.0, "started_at": 10.0, "ready_at": 60.0} | more
    return InstanceRecord(
        id="m", pool="gpu", offer=an_offer(4, 8.0), intent_id="i", generation=1, **values
    )


def use(start: float, end: float | None = None) -> Use:
    return Use(job_id="job", slots=4, start=start, end=end)


def test_a_life_is_told_from_its_request_to_its_end() -> None:
    record = machine(state=S.GONE, terminate_since=400.0, ended_at=450.0)
    held = [use(100.0, 200.0), use(150.0, 250.0)]
    found = spans(record, held, since=0.0, until=1000.0)
    assert [(x.kind, x.start, x.end) for x in found] == [
        (K.QUEUED, 0.0, 10.0),
        (K.BOOT, 10.0, 60.0),
        (K.IDLE, 60.0, 100.0),
        (K.BUSY, 100.0, 250.0),
        (K.IDLE, 250.0, 400.0),
        (K.ENDING, 400.0, 450.0),
    ]
    assert [x.kind for x in spans(record, held, since=240.0, until=300.0)] == [K.BUSY, K.IDLE]
    assert spans(record, held, since=500.0, until=1000.0) == []


def test_a_machine_whose_agent_never_came_is_lost() -> None:
    record = machine(state=S.GONE, ready_at=None, ended_at=100.0)
    assert [x.kind for x in spans(record, [], since=0.0, until=200.0)] == [K.QUEUED, K.LOST]


moments = st.integers(0, 1000).map(float)


@given(st.lists(st.tuples(moments, moments).map(sorted), max_size=6))
def test_busy_time_is_what_is_paid_as_busy(held: list[list[float]]) -> None:
    """Where one job holds all slots."""
    record, uses = machine(), [use(start, end) for start, end in held]
    found = spans(record, uses, since=0.0, until=1000.0)
    assert all(a.end == b.start and a.kind is not b.kind for a, b in pairwise(found))
    assert (found[0].start, found[-1].end) == (0.0, 1000.0)
    charged = charges(Lifetime.of(record), uses, since=0.0, until=1000.0)
    paid = sum(amount.hours for key, amount in charged.items() if key.kind is CostKind.BUSY)
    busy = sum(x.end - x.start for x in found if x.kind is K.BUSY)
    assert busy == pytest.approx(paid * 3600.0)
